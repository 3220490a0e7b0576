"""Operators whose numbers change from call to call: the numbers as tensors of no dimensions.

An operator's graph has its numbers as constants. From the second number on it gets another graph,
of the same arithmetic, whose numbers are arguments: ``FORMS`` has that arithmetic for each operator
that takes numbers which change in practice (rates, limits, values). The others are compiled for a
few numbers and then run on the host.

A number is converted to where eager computes: for ``float16`` and ``bfloat16`` that is ``float32``,
to which the tensors are converted as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor

_REDUCED = (torch.float16, torch.bfloat16)


def add(x: Tensor, y: Tensor, alpha: Tensor | None = None) -> Tensor:
    return x + (y if alpha is None else y * alpha)


def sub(x: Tensor, y: Tensor, alpha: Tensor | None = None) -> Tensor:
    return x - (y if alpha is None else y * alpha)


def clamp(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    return torch.clamp(x, min, max)


def hardtanh(x: Tensor, min_val: Tensor | None = None, max_val: Tensor | None = None) -> Tensor:
    return torch.clamp(
        x,
        torch.full((), -1.0, dtype=x.dtype, device=x.device) if min_val is None else min_val,
        torch.full((), 1.0, dtype=x.dtype, device=x.device) if max_val is None else max_val,
    )


def threshold(x: Tensor, threshold: Tensor, value: Tensor) -> Tensor:
    return torch.where(x <= threshold, value, x)


def leaky_relu(x: Tensor, negative_slope: Tensor) -> Tensor:
    return torch.where(x > 0, x, x * negative_slope)


def elu(
    x: Tensor, alpha: Tensor, scale: Tensor | float = 1, input_scale: Tensor | float = 1
) -> Tensor:
    return torch.where(x > 0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


def softplus(x: Tensor, beta: Tensor, threshold: Tensor | float = 20) -> Tensor:
    scaled = x * beta
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(scaled)) / beta)


def hardshrink(x: Tensor, lambd: Tensor) -> Tensor:
    return x.masked_fill((x >= -lambd) & (x <= lambd), 0)


def softshrink(x: Tensor, lambd: Tensor) -> Tensor:
    return torch.where(x > lambd, x - lambd, torch.where(x < -lambd, x + lambd, x * 0))


def fill(x: Tensor, value: Tensor) -> Tensor:
    return value.to(x.dtype).expand(x.shape)


def masked_fill(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return torch.where(mask, value.to(x.dtype), x)


def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    return torch.index_fill(x, dim, index, value.to(x.dtype))


def scatter(x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    return torch.scatter(x, dim, index, value.to(x.dtype).expand(index.shape))


def addcmul(x: Tensor, a: Tensor, b: Tensor, value: Tensor) -> Tensor:
    return x + value * a * b


def addcdiv(x: Tensor, a: Tensor, b: Tensor, value: Tensor) -> Tensor:
    return x + value * a / b


def _sum_of_products(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def run(
        x: Tensor, a: Tensor, b: Tensor, beta: Tensor | None = None, alpha: Tensor | None = None
    ) -> Tensor:
        found = product(a, b)
        if alpha is not None:
            found = found * alpha
        if beta is not None:
            # With a factor of 0 the operand may be uninitialised, as eager does not read it.
            x = (x * beta).masked_fill(beta == 0, 0)
        return x + found

    return run


#: By name of the operator: its arithmetic on tensors, each of its numbers (``Scalar`` in its
#: schema, or a number where it takes a tensor) being one of no dimensions.
FORMS: dict[str, Callable[..., Tensor]] = {
    "add": add,
    "sub": sub,
    "mul": torch.mul,
    "div": torch.div,
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "pow": torch.pow,
    "xlogy": torch.xlogy,
    "copysign": torch.copysign,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "clamp": clamp,
    "clamp_min": torch.clamp_min,
    "clamp_max": torch.clamp_max,
    "hardtanh": hardtanh,
    "threshold": threshold,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "softplus": softplus,
    "hardshrink": hardshrink,
    "softshrink": softshrink,
    "fill": fill,
    "masked_fill": masked_fill,
    "index_fill": index_fill,
    "scatter": scatter,
    "addcmul": addcmul,
    "addcdiv": addcdiv,
    "lerp": torch.lerp,
    "addmm": _sum_of_products(torch.mm),
    "baddbmm": _sum_of_products(torch.bmm),
    "addmv": _sum_of_products(torch.mv),
    "addr": _sum_of_products(torch.outer),
}

#: These round the number to their tensors' type first.
_ROUND_FIRST = (
    "eq", "ne", "lt", "le", "gt", "ge", "threshold", "hardshrink", "softshrink", "remainder",
    "fmod",
)  # fmt: skip
#: With integers, negative exponents are an error, which the host raises.
_REAL_ONLY = ("pow",)
#: Negative numbers are an error as well.
_NOT_NEGATIVE = ("softshrink",)
#: Not computed in ``float32``, which would not use a device's matrix units.
_NOT_REDUCED = ("addmm", "baddbmm", "addmv", "addr")


def name_of(op: torch._ops.OpOverload) -> str:
    """The operator's name in ``FORMS``, whether or not it writes its first argument."""
    name: str = op._schema.name.partition("::")[2]
    return name.removesuffix("_")


def can_change(argument: torch._C.Argument) -> bool:
    """Whether a number for this argument of a schema is one that ``FORMS`` takes as a tensor."""
    kind = str(argument.type)
    return kind in ("number", "Optional[number]", "Tensor", "Optional[Tensor]")


def dtype_of_numbers(name: str, tensors: Sequence[Tensor], kind: type) -> torch.dtype | None:
    """The tensor type for the numbers of a call, all of ``kind``; None: unsupported.

    Integers have to be in the range of ``range_of_numbers``.
    """
    real = [x.dtype for x in tensors if x.dtype.is_floating_point]
    if any(d in _REDUCED for d in real) and name in _NOT_REDUCED:
        return None
    if real:
        found = real[0]
        for d in real[1:]:
            found = torch.promote_types(found, d)
        return torch.float32 if found in _REDUCED else found
    if name in _REAL_ONLY:
        return None
    return torch.get_default_dtype() if kind is float else torch.int64


def range_of_numbers(
    name: str, tensors: Sequence[Tensor], dtype: torch.dtype
) -> tuple[float, float]:
    """The range of numbers: outside of it eager raises, or wraps around in its own ways."""
    if not dtype.is_floating_point:
        kinds = {x.dtype for x in tensors if x.dtype is not torch.bool} | {dtype}
        limits = [torch.iinfo(d) for d in kinds]
        return max(i.min for i in limits), min(i.max for i in limits)
    kinds = {x.dtype for x in tensors if x.dtype.is_floating_point} | {dtype}
    limit = min(torch.finfo(d).max for d in kinds)
    return 0.0 if name in _NOT_NEGATIVE else -limit, limit


def arithmetic(name: str, numbers: Sequence[Tensor], args: Any, kwargs: Any) -> Tensor:
    """``FORMS[name]`` of arguments of any type; ``numbers``: those of them that were numbers."""
    leaves = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
    real = [x.dtype for x in leaves if x.is_floating_point() and not _is_in(x, numbers)]
    reduced = real[0] if real and real[0] in _REDUCED and len(set(real)) == 1 else None

    def given(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if name in _ROUND_FIRST and reduced is not None and _is_in(x, numbers):
            x = x.to(reduced)
        return x.float() if x.dtype in _REDUCED else x

    return FORMS[name](*map(given, args), **{k: given(x) for k, x in kwargs.items()})


def _is_in(x: Tensor, tensors: Sequence[Tensor]) -> bool:
    return any(x is y for y in tensors)
