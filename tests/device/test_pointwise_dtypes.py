"""Pointwise operators and reductions over edge values of every dtype, many in one graph."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import compiled, tensors, two_drivers
from torch.nn import functional as F

Function = Callable[..., Any]

UNARY = (
    "abs neg positive sign sgn signbit square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 "
    "log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma "
    "digamma i0 sigmoid floor ceil trunc round frac isnan isinf isfinite isposinf isneginf "
    "logical_not bitwise_not nan_to_num angle deg2rad rad2deg sinc relu logit count_nonzero all "
    "any sum prod mean amax amin argmax argmin max min var std nansum nanmean aminmax diff"
).split()
BINARY = (
    "add sub mul div floor_divide remainder fmod pow float_power maximum minimum fmax fmin atan2 "
    "hypot copysign nextafter logaddexp logaddexp2 xlogy eq ne lt le gt ge logical_and logical_or "
    "logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd "
    "heaviside isclose rsub"
).split()
FURTHER_UNARY: dict[str, Function] = {
    "i0e": torch.special.i0e, "i1": torch.special.i1, "i1e": torch.special.i1e,
    "entr": torch.special.entr, "ndtr": torch.special.ndtr, "silu": F.silu, "mish": F.mish,
    "softplus": F.softplus, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "logsigmoid": F.logsigmoid, "softsign": F.softsign, "hardshrink": F.hardshrink,
    "elu": F.elu, "selu": F.selu, "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(0), "cummin": lambda x: x.cummin(0),
}  # fmt: skip
FURTHER_BINARY: dict[str, Function] = {
    "xlog1py": torch.special.xlog1py,
    "where": lambda a, b: torch.where(a > b, a, b),
    "clamp": lambda a, b: torch.clamp(a, min=b, max=b + 1),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    # The smallest integer ends eager's lcm by a trap.
    "lcm": lambda a, b: torch.lcm(a.clamp(-100, 100), b.clamp(-100, 100)),
}
#: The largest numbers are left out: there eager's vectorised remainder gives NaN.
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -7.0, 10.0, 100.0, -100.0, 1e-3,
    1e-7, -1e-7, 6e4, math.inf, -math.inf, math.nan, 88.0, -88.0, 0.99999, 0.1, 12.34,
]  # fmt: skip
INTEGERS = [0, 1, -1, 2, -2, 3, -3, 7, -7, 10, 31, 32, 63, 64, 100, -100, 127, -128]
#: Relative and absolute; eager rounds half types after each step, this backend once.
TOLERANCE = {
    torch.float32: (2e-5, 1e-6), torch.float64: (1e-10, 1e-12),
    torch.float16: (4e-3, 1e-3), torch.bfloat16: (2e-2, 8e-3),
}  # fmt: skip


def edges(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([True, False] * 16)
    if dtype.is_floating_point:
        generator = torch.Generator().manual_seed(3)
        return torch.cat([torch.tensor(FLOATS), torch.randn(40, generator=generator) * 3]).to(dtype)
    info = torch.iinfo(dtype)
    inside = [n for n in INTEGERS if info.min <= n <= info.max]
    return torch.tensor([*inside, info.min, info.max], dtype=dtype)


def without_zero(f: Function) -> Function:
    return lambda a, b: f(a, torch.where(b == 0, 1, b).to(b.dtype))


def runnable(table: dict[str, Function], args: tuple[torch.Tensor, ...]) -> dict[str, Function]:
    """What eager can do with these arguments, and without complex results."""
    found: dict[str, Function] = {}
    for name, f in table.items():
        for variant in (f, without_zero(f)) if len(args) == 2 else (f,):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = variant(*args)
            except (RuntimeError, TypeError, ZeroDivisionError):
                continue  # not for this dtype, or divided by zero
            if not any(t.is_complex() for t in tensors(result)):
                found[name] = variant
            break
    return found


def mismatch(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    if not want.dtype.is_floating_point:
        return got != want
    rtol, atol = TOLERANCE[want.dtype]
    a, b = got.double(), want.double()
    same = (a == b) | (a.isnan() & b.isnan())
    return ~(same | ((a - b).abs() <= atol + rtol * b.abs()))


@pytest.mark.slow
@pytest.mark.parametrize("device", two_drivers())
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
        torch.int16, torch.int8, torch.uint8, torch.bool,
    ],
    ids=str,
)  # fmt: skip
def test_edge_values(dtype: torch.dtype, device: str) -> None:
    """Dtypes, shapes and numbers are eager's, and nothing runs on the host."""
    x = edges(dtype)
    unary = {n: getattr(torch, n) for n in UNARY} | FURTHER_UNARY
    binary = {n: getattr(torch, n) for n in BINARY} | FURTHER_BINARY
    pairs = x.repeat(len(x)), x.repeat_interleave(len(x))
    for table, args in ((unary, (x,)), (binary, pairs)):
        fns = runnable(table, args)
        assert len(fns) > len(table) // 2

        def all_of_them(*xs: torch.Tensor, fns: dict[str, Function] = fns) -> list[Any]:
            return [f(*xs) for f in fns.values()]

        found = compiled(all_of_them, device, fallback="error")(*args)
        for name, ours, theirs in zip(fns, found, all_of_them(*args), strict=True):
            for got, want in zip(tensors(ours), tensors(theirs), strict=True):
                assert (got.dtype, got.shape) == (want.dtype, want.shape), name
                wrong = mismatch(got, want)
                where = wrong.reshape(-1).nonzero()[:3, 0]
                full = [a.reshape(-1) for a in args if a.shape == got.shape]
                assert not wrong.any(), (
                    f"{name}: {got.reshape(-1)[where]} instead of {want.reshape(-1)[where]} "
                    f"for {[a[where] for a in full]}"
                )


@pytest.mark.parametrize("device", two_drivers())
def test_lcm_of_bytes(device: str) -> None:
    """C++ computes it in 32 bits: the absolute value comes before the wrapping."""
    x = edges(torch.int8)
    a, b = x.repeat(len(x)), x.repeat_interleave(len(x))
    got = compiled(torch.lcm, device, fallback="error")(a, b)
    assert torch.equal(got, torch.lcm(a, b))
