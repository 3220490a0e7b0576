"""Finding what a row names as ``package.module:callable``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.vision_import import import_torchvision

# Both import torchvision by themselves.
_NEED_TORCHVISION = {"torchvision", "timm", "transformers"}


class ModelLoadError(OpenCLInductorError):
    """A row's model cannot be found or built; a sweep reports ``model_fail_to_load``."""

    def __init__(self, name: str, target: str, reason: str) -> None:
        super().__init__(
            f"{name}: cannot load {target}: {reason}. `pip install 'ocl-inductor[sweep]'` brings "
            "the packages that rows use.",
            name=name,
            target=target,
            reason=reason,
        )


def resolve(target: str, name: str) -> Callable[..., Any]:
    """The callable ``package.module:callable`` of row ``name``.

    Raises:
        ModelLoadError: the module cannot be imported or lacks the callable.
    """
    module_name, _, attribute = target.partition(":")
    try:
        if module_name.split(".")[0] in _NEED_TORCHVISION:
            import_torchvision()
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ModelLoadError(name, target, str(error)) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise ModelLoadError(name, target, f"the module has no callable {attribute!r}")
    return found
