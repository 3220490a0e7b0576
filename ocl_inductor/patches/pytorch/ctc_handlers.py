"""Handlers of ours in Dynamo for functions of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from ocl_inductor.patches.switch import enabled


def handle(functions: Mapping[Callable[..., object], Callable[..., object]]) -> None:
    """Add handlers to Dynamo's table; functions that have one there keep it."""
    if enabled("ctc_handlers"):
        handlers = TorchInGraphFunctionVariable._get_handlers()
        for function, handler in functions.items():
            handlers.setdefault(function, handler)
