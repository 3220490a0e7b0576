"""Dtypes that eager's kernels refuse, where PyTorch's shape functions accept them.

A kernel here would compute something, or not build; such a call is left to the host, which raises
what eager raises. (Operators that are decomposed before they come here: ``capture/refused.py``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx import Node

from ocl_inductor.ir.dtypes import HALF_TYPES

aten = torch.ops.aten

Takes = Callable[[torch.dtype], bool]


def _numbers(dtype: torch.dtype) -> bool:
    """Everything but truth values."""
    return dtype is not torch.bool


def _integers(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


def _numbers_without_fraction(dtype: torch.dtype) -> bool:
    return _integers(dtype) and dtype is not torch.bool


def _fractions(dtype: torch.dtype) -> bool:
    return not _integers(dtype)


def _not_narrow(dtype: torch.dtype) -> bool:
    return dtype not in HALF_TYPES


def _averaged(dtype: torch.dtype) -> bool:
    return _fractions(dtype) or dtype is torch.int64


#: What eager's kernel takes, how many operands decide it together, and the operators.
_ROWS: tuple[tuple[Takes, int, str], ...] = (
    (
        _numbers,
        1,
        "abs argmax argmin ceil floor kthvalue median nanmedian reflection_pad1d reflection_pad2d "
        "reflection_pad3d relu round.default threshold topk trunc",
    ),
    (_numbers, 2, "pow"),
    (_numbers, 3, "addcmul clamp clamp_max clamp_min"),
    (_integers, 2, "bitwise_and bitwise_not bitwise_or bitwise_xor"),
    (_numbers_without_fraction, 2, "bitwise_left_shift bitwise_right_shift gcd lcm"),
    (
        _fractions,
        1,
        "adaptive_max_pool2d adaptive_max_pool3d celu elu frac gelu hardshrink hardsigmoid "
        "hardswish leaky_relu log_sigmoid_forward max_unpool2d max_unpool3d mish round.decimals "
        "selu silu softplus softshrink",
    ),
    (_fractions, 2, "hypot igamma igammac lerp logaddexp logaddexp2 nextafter"),
    (_averaged, 1, "avg_pool2d avg_pool3d"),
    (
        _not_narrow,
        1,
        "special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 "
        "special_erfcx special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 "
        "special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri "
        "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 "
        "special_spherical_bessel_j0",
    ),
)


def _overloads(names: str) -> Iterable[object]:
    for name in names.split():
        packet, _, overload = name.partition(".")
        found = getattr(aten, packet)
        yield from (getattr(found, o) for o in ([overload] if overload else found.overloads()))


_TAKES: Mapping[object, tuple[Takes, int]] = {
    target: (takes, count) for takes, count, names in _ROWS for target in _overloads(names)
}

#: Operators that take no truth value at all, beside numbers neither.
_WITHOUT_TRUTH = frozenset(_overloads("rsub sub"))


def not_taken(node: Node) -> str | None:
    """Why eager refuses an operator for the dtypes of its operands, or None."""
    if node.target in _WITHOUT_TRUTH:
        truths = [x for x in map(_operand, node.args[:2]) if _is_truth(x)]
        return "eager does not subtract truth values" if truths else None
    takes, count = _TAKES.get(node.target, (None, 0))
    if takes is None:
        return None
    operands = [x for x in map(_operand, node.args[:count]) if x is not None]
    if not any(isinstance(x, torch.Tensor) for x in operands):
        return None
    _, dtype = elementwise_dtypes(
        *operands, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    )
    return None if takes(dtype) else f"eager refuses {dtype} here"


def _operand(argument: object) -> object:
    """A tensor, or a number that takes part in promotion."""
    found = argument.meta.get("val") if isinstance(argument, Node) else argument
    if isinstance(found, torch.SymInt):
        return 1
    if isinstance(found, torch.SymFloat):
        return 1.0
    return found if isinstance(found, (torch.Tensor, bool, int, float, complex)) else None


def _is_truth(x: object) -> bool:
    return isinstance(x, bool) or (isinstance(x, torch.Tensor) and x.dtype is torch.bool)
