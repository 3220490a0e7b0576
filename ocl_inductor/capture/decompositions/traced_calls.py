"""Calls of functions of PyTorch's for which Dynamo traces a function of ours instead.

The call is seen while Dynamo traces, when the backend is known: others are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.variables.base import VariableTracker

Handler = Callable[..., VariableTracker | None]


def handler(
    traced: Callable[..., object],
    covered: Callable[..., bool],
    otherwise: Callable[[], None] = lambda: None,
) -> Handler:
    """What Dynamo asks at a call: traces ``traced``, if its variables are ``covered``.

    Other calls in graphs for this backend are left to Dynamo, after ``otherwise``.
    """

    def traced_call(
        variable: object, tx: Any, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker | None:
        if not is_ours(tx):
            return None
        if _is_transformed() or not covered(*args, **kwargs):
            otherwise()
            return None
        function = VariableTracker.build(tx, traced)
        result: VariableTracker = tx.inline_user_function_return(function, list(args), kwargs)
        return result

    return traced_call


def is_ours(tx: Any) -> bool:
    """Whether a graph is traced for this backend: Dynamo's wrappers around one end at it."""
    backend = tx.output.compiler_fn
    while (inner := getattr(backend, "compiler_fn", None)) is not None:
        backend = inner
    return str(getattr(backend, "__module__", "")).startswith("ocl_inductor.")


def _is_transformed() -> bool:
    """Whether inside a ``torch.func`` transformation, which needs rules our operators lack."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def example(variable: VariableTracker | None) -> Tensor | None:
    """The fake tensor of a variable; None for other values."""
    if variable is None or not (variable := variable.realize()).is_tensor():
        return None
    found: Tensor = variable.as_proxy().node.meta["example_value"]
    return found
