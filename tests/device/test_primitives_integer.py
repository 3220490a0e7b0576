"""Primitives of integers, comparisons and logic, scalar and vector, on every driver."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from primitive_kernels import (
    BF16,
    BOOL,
    COUNT,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    WIDTHS,
    apply,
    data_of,
    integers,
    skip_without,
)

from ocl_inductor.device.device import Device

INTEGER_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "left_shift": torch.bitwise_left_shift,
    "right_shift": torch.bitwise_right_shift,
    "gcd": torch.gcd,
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [I8, I16, I32, I64, U8])
def test_integer_binary(device: Device, dtype: torch.dtype, width: int) -> None:
    a, b = integers(dtype, 0), integers(dtype, 1)
    for name, reference in INTEGER_BINARY.items():
        if name == "gcd":  # the smallest integer has no absolute value
            low = torch.iinfo(dtype).min
            a, b = (torch.where(t == low, 6, t).to(dtype) if low else t for t in (a, b))
        got = apply(device, name, [a, b], dtype, width)
        assert torch.equal(got, reference(a, b)), name


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [I8, I16, I32, I64, U8])
def test_integer_division(device: Device, dtype: torch.dtype, width: int) -> None:
    """Nothing traps: zero divisors give zero, the smallest by -1 wraps."""
    a, b = integers(dtype, 0), integers(dtype, 1)
    # NumPy divides as C++ does not: in wider integers, nothing overflows.
    x, y = a.numpy().astype(object), b.numpy().astype(object)
    y[y == 0] = 1 << 80
    zero = (b == 0).numpy()
    floor = np.array([int(u) // int(v) for u, v in zip(x, y)], object)
    trunc = np.array([abs(int(u)) // abs(int(v)) for u, v in zip(x, y)], object)
    trunc = np.where([(u < 0) != (v < 0) for u, v in zip(x, y)], -trunc, trunc)
    wants = {
        "floor_div": floor,
        "trunc_div": trunc,
        "remainder": x - floor * y,
        "fmod": x - trunc * y,
    }
    for name, want in wants.items():
        got = apply(device, name, [a, b], dtype, width).numpy().astype(object)
        bits = torch.iinfo(dtype).bits
        difference = (got - want) % (1 << bits)
        assert not difference[~zero].any(), name


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [I8, I16, I32, I64, U8])
def test_integer_power_and_unary(device: Device, dtype: torch.dtype, width: int) -> None:
    a = integers(dtype)
    b = (integers(dtype, 1).abs() % 70).to(dtype)
    assert torch.equal(apply(device, "pow", [a, b], dtype, width), torch.pow(a, b))
    assert torch.equal(apply(device, "abs", [a], dtype, width), torch.abs(a))
    assert torch.equal(apply(device, "neg", [a], dtype, width), torch.neg(a))
    assert torch.equal(apply(device, "sign", [a], dtype, width), torch.sign(a))
    assert torch.equal(apply(device, "bitwise_not", [a], dtype, width), torch.bitwise_not(a))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [I32, I64])
def test_negative_integer_powers(device: Device, dtype: torch.dtype, width: int) -> None:
    a = torch.tensor([1, -1, -1, 2, -2, 7], dtype=dtype).repeat(COUNT // 6 + 1)[:COUNT]
    b = torch.tensor([-1, -2, -3, -1, -2, -5], dtype=dtype).repeat(COUNT // 6 + 1)[:COUNT]
    assert torch.equal(apply(device, "pow", [a, b], dtype, width), torch.pow(a, b))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16, I8, I16, I32, I64, U8, BOOL])
def test_comparison_and_choice(device: Device, dtype: torch.dtype, width: int) -> None:
    skip_without(device, dtype)
    a, b = data_of(dtype, 0), data_of(dtype, 1)
    a[::5] = b[::5]
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        got = apply(device, name, [a, b], BOOL, width)
        assert torch.equal(got, getattr(torch, name)(a, b)), name
    condition = integers(BOOL, 3)
    got = apply(device, "where", [condition, a, b], dtype, width)
    torch.testing.assert_close(got, torch.where(condition, a, b), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_logic(device: Device, width: int) -> None:
    a, b = integers(BOOL, 0), integers(BOOL, 1)
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_xor"):
        assert torch.equal(apply(device, name, [a, b], BOOL, width), getattr(torch, name)(a, b))
    assert torch.equal(apply(device, "minimum", [a, b], BOOL, width), a & b)
    assert torch.equal(apply(device, "maximum", [a, b], BOOL, width), a | b)
    assert torch.equal(apply(device, "logical_not", [a], BOOL, width), ~a)
    assert torch.equal(apply(device, "bitwise_not", [a], BOOL, width), ~a)
