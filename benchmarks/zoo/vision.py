"""Image models: (N, 3, size, size) floats in, logits out.

``small`` lowers the resolution and keeps the architecture; only VGG-16's classifier is narrowed
too, since its 120 million weights say nothing that 13 million do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.zoo.entry import Entry, Inputs

_CNN5 = "torchbench_configs.models.small_cnns:cnn5"
_UNET = "torchbench_configs.models.unet:UNet"
_VGG16 = "torchbench_configs.models.vgg:vgg16"


def _images(small_size: int, size: int) -> Callable[[bool, int, torch.Generator], Inputs]:
    def make(small: bool, batch: int, generator: torch.Generator) -> Inputs:
        side = small_size if small else size
        return Inputs((torch.randn(batch, 3, side, side, generator=generator),))

    return make


_PHOTOGRAPHS = _images(64, 224)


def _torchvision(name: str, model: str | None = None, **more: Any) -> Entry:
    """One that torchvision has, under the zoo's own name where ``model`` is another one."""
    full, small = {"weights": None, "num_classes": 1000}, {"num_classes": 10}
    constructor = f"torchvision.models:{model or name}"
    return Entry(name, "vision", constructor, _PHOTOGRAPHS, full, small, **more)


_VIT = {"model_name": "vit_tiny_patch16_224", "pretrained": False}

ENTRIES = (
    Entry(
        "cnn5", "vision", _CNN5, _images(16, 32),
        {"width": 32, "side": 8}, {"width": 8, "side": 4}, batch=8,
    ),
    _torchvision("alexnet"),
    _torchvision("resnet18"),
    _torchvision("resnet50"),
    _torchvision("mobilenet_v2"),
    Entry(
        "vgg16", "vision", _VGG16, _PHOTOGRAPHS,
        {"num_classes": 1000}, {"num_classes": 10, "hidden": 128}, small_batch=1,
    ),
    _torchvision("densenet121"),
    _torchvision("efficientnet_b0"),
    Entry(
        "unet", "vision", _UNET, _images(32, 128),
        {"width": 32, "depth": 3, "bilinear": False}, {"width": 8},
    ),
    Entry(
        "vit_tiny", "vision", "timm:create_model", _PHOTOGRAPHS,
        {**_VIT, "img_size": 224, "num_classes": 1000}, {"img_size": 64, "num_classes": 10},
    ),
    _torchvision("convnext_tiny"),
    _torchvision("swin_tiny", "swin_t", small_batch=1),
)  # fmt: skip
