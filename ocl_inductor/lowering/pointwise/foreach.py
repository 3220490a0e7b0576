"""``torch._foreach_*``: one elementwise operator over lists of tensors, as optimisers call it.

Each tensor gets the lowering of the plain operator; what they share (launches, loops of one form)
is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

# Defines prims.fma, into which Dynamo turns addcmul_ with a tensor as its factor.
from torch._inductor import inductor_prims

from ocl_inductor.ir.expr import Expr, op
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.rows import Row, overloads, register_rows
from ocl_inductor.operators.registry import LOWERINGS, register


@dataclass(frozen=True, slots=True)
class Each:
    """A list operator (``aten._foreach_`` and ``name``) and the operator for one of its tensors.

    Arguments that are lists go in element by element, all others as they are, in the same order.
    ``keyword``: the name under which the plain operator takes the list operator's last argument.
    """

    name: str
    plain: str
    keyword: str = ""


UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()

EACH = (
    *(Each(name, name) for name in UNARY),
    *(
        Each(f"{name}.{form}", f"{name}.Tensor")
        for name in ("add", "sub", "mul", "div")
        for form in ("List", "Scalar", "ScalarList", "Tensor")
        if (name, form) != ("sub", "Tensor")  # does not exist
    ),
    *(
        Each(f"{name}.{form}", plain)
        for name, plain in (
            ("maximum", "maximum"),
            ("minimum", "minimum"),
            # Of tensors and numbers alike: NaN of either operand wins, as in clamp.
            ("clamp_min", "maximum"),
            ("clamp_max", "minimum"),
        )
        for form in ("List", "Scalar", "ScalarList")
    ),
    *(
        Each(f"{name}.{form}", name, keyword)
        for name in ("addcmul", "addcdiv")
        for form, keyword in (("Scalar", "value"), ("ScalarList", "value"))
    ),
    Each("lerp.List", "lerp.Tensor"),
    Each("lerp.Scalar", "lerp.Scalar"),
    Each("lerp.ScalarList", "lerp.Scalar"),
    Each("pow.List", "pow.Tensor_Tensor"),
    Each("pow.Scalar", "pow.Tensor_Scalar"),
    Each("pow.ScalarList", "pow.Tensor_Scalar"),
    Each("pow.ScalarAndTensor", "pow.Scalar"),
    Each("copy", "copy"),
    Each("zero", "zero"),
    Each("mm", "mm"),
)


def _is_list(x: object) -> bool:
    return isinstance(x, (list, tuple))


def _lowering(each: Each, plain: object) -> Callable[..., list[Value]]:
    def lower(ctx: LoweringContext, *args: Any, **kwargs: Any) -> list[Value]:
        count = next(len(a) for a in args if _is_list(a))
        results = []
        for i in range(count):
            own = [a[i] if _is_list(a) else a for a in args]
            named = dict(kwargs)
            # A number after three lists, or by its own name; it may have been left out.
            if each.keyword and len(own) > 3:
                named[each.keyword] = own.pop()
            if "scalars" in named:
                named[each.keyword] = named.pop("scalars")[i]
            results.append(LOWERINGS[plain](ctx, *own, **named))
        return results

    return lower


for _each in EACH:
    (_plain,) = overloads(_each.plain)
    register(*overloads(f"_foreach_{_each.name}"))(_lowering(_each, _plain))


@register(torch.ops.aten._foreach_norm.Scalar)
def lower_foreach_norm(
    ctx: LoweringContext,
    tensors: list[Value],
    ord: float = 2,
    dtype: torch.dtype | None = None,
) -> list[Value]:
    """The vector norm of each tensor, as clipping of gradients takes it."""
    norm = LOWERINGS[torch.ops.aten.linalg_vector_norm.default]
    return [norm(ctx, t, ord, None, False, dtype=dtype) for t in tensors]


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    return op("fma", a, b, c)


register_rows([Row((inductor_prims.fma,), fma)])
