"""The table from aten operator to what it is on complex tensors.

It stands beside ``LOWERINGS``, and serves a call that takes or gives a complex tensor.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.pointwise.rows import overloads
from ocl_inductor.operators.registry import LOWERINGS, Lowering

#: Operator overload to ``fn(ctx, *args, **kwargs)``, whose complex tensors are ``ComplexValue``.
COMPLEX_RULES: dict[torch._ops.OpOverload, Lowering] = {}


def complex_rule(names: str) -> Callable[[Lowering], Lowering]:
    """Register what ``names`` (``"mul.Tensor mul.Scalar"``) do with complex tensors."""

    def decorate(fn: Lowering) -> Lowering:
        for target in overloads(names):
            enter(target, fn)
        return fn

    return decorate


def enter(target: object, fn: Lowering) -> None:
    """Put one rule into the table. A second one for an overload is a bug and raises."""
    if target in COMPLEX_RULES:
        raise ValueError(f"{target} has a rule for complex tensors already")
    COMPLEX_RULES[target] = fn


def real(target: object) -> Lowering:
    """The lowering of an operator for real tensors."""
    return LOWERINGS[target]


def result_dtype(ctx: LoweringContext) -> torch.dtype:
    """The dtype of the present call's (first) result, as traced."""
    assert ctx.fx_node is not None
    made = ctx.fx_node.meta["val"]
    return (made[0] if isinstance(made, (tuple, list)) else made).dtype
