"""Models of transformers from an explicit configuration, with random weights."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from ocl_inductor.sweep.vision_import import import_torchvision


def build(model: str, config: dict[str, Any]) -> nn.Module:
    """The class ``model`` of transformers over a configuration with the fields of ``config``.

    A part that transformers does not export is ``module:class``, below ``transformers.models``.

    Fields that the configuration does not know would be accepted silently by transformers, and
    the model would have other dimensions than its row says; they are refused here.

    Raises:
        ValueError: transformers has no such class, or its configuration no such field.
    """
    import_torchvision()
    import transformers

    module_name, _, kind_name = model.rpartition(":")
    source = transformers
    if module_name:
        source = importlib.import_module(f"transformers.models.{module_name}")
    found = getattr(source, kind_name, None)
    if found is None:
        raise ValueError(f"transformers {transformers.__version__} has no {model}")
    kind = found.config_class
    # The last one belongs to generation, but shifting labels reads it from the configuration.
    known = set(vars(kind())) | set(kind.attribute_map) | {"decoder_start_token_id"}
    if unknown := set(config) - known:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    module: nn.Module = found(kind(**config))
    return module
