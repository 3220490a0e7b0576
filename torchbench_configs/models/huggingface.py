"""Models of transformers from an explicit configuration, with random weights."""

from __future__ import annotations

from typing import Any

from torch import nn

from ocl_inductor.sweep.rows.vision_import import import_torchvision


def build(model: str, config: dict[str, Any]) -> nn.Module:
    """The class ``model`` of transformers over a configuration with the fields of ``config``.

    Fields that the configuration does not know would be accepted silently by transformers, and
    the model would have other dimensions than its row says; they are refused here.

    Raises:
        ValueError: transformers has no such class, or its configuration no such field.
    """
    import_torchvision()
    import transformers

    found = getattr(transformers, model, None)
    if found is None:
        raise ValueError(f"transformers {transformers.__version__} has no {model}")
    kind = found.config_class
    # The last one belongs to generation, but shifting labels reads it from the configuration.
    known = set(vars(kind())) | set(kind.attribute_map) | {"decoder_start_token_id"}
    if unknown := set(config) - known:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    module: nn.Module = found(kind(**config))
    return module
