"""Import torchvision beside a CPU build of torch.

The published torchvision wheel carries a compiled extension for CUDA torch. On a CPU torch the
extension does not load, its operators are never defined, and the import stops at
``operator torchvision::nms does not exist`` when the fake kernel of ``nms`` is registered. The
models need none of these operators, so defining their schemas is enough. transformers and timm
import torchvision by themselves, hence they need this helper as well.
"""

from __future__ import annotations

import importlib
import sys

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)

# Schemas live as long as their Library object does.
_libraries: list[torch.library.Library] = []


def import_torchvision() -> None:
    """Make ``import torchvision`` work from here on.

    The plain import is tried first, because defining a schema twice is an error where the
    compiled extension does load.

    Raises:
        ImportError: torchvision is not installed.
        RuntimeError: the import fails for another reason than the missing operators.
    """
    try:
        importlib.import_module("torchvision")
        return
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _libraries.append(library)
    for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
        del sys.modules[name]  # half-imported by the failed attempt
    importlib.import_module("torchvision")
