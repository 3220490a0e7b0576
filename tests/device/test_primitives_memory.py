"""Conversions, loads and stores, scalar and vector, on every driver."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from primitive_kernels import (
    ALL,
    BF16,
    BOOL,
    COUNT,
    F16,
    F32,
    F64,
    I32,
    I64,
    TINY,
    U8,
    WIDTHS,
    apply,
    data_of,
    floats,
    run,
    skip_without,
    wrap_kernel,
)

from ocl_inductor.codegen.printers.primitives import (
    EmitTarget,
    emit_gather_lanes,
    emit_load,
    emit_primitive,
    emit_store,
)
from ocl_inductor.device.device import Device
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Expr


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts(device: Device, source: torch.dtype, width: int) -> None:
    skip_without(device, source)
    x = data_of(source)
    for target in ALL:
        if target == source or (target is F64 and not device.info.fp64):
            continue
        values = x
        if source.is_floating_point and not target.is_floating_point and target is not BOOL:
            # Outside its range C++ leaves the result open, and eager's differs by code path.
            info = torch.iinfo(target)
            low = -120.0 if target is U8 else float(info.min)
            inside = (x.double() >= low) & (x.double() < float(info.max))
            values = torch.where(inside, x, torch.ones_like(x))
        got = apply(device, "cast", [values], target, width)
        want = values.to(target)
        if target.is_floating_point:
            flushed = (want.double().abs() < TINY) & (got.double().abs() < TINY)
            got, want = got[~flushed], want[~flushed]
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("source", [F32, F64], ids=str)
def test_casts_out_of_range(device: Device, source: torch.dtype, width: int) -> None:
    """As cvttss2si: the smallest integer."""
    skip_without(device, source)
    x = torch.full((COUNT,), math.nan, dtype=source)
    x[::2], x[1::4], x[3::8] = math.inf, -1e30, 1e30
    for target in (I32, I64):
        got = apply(device, "cast", [x], target, width)
        assert torch.equal(got, torch.full_like(got, torch.iinfo(target).min))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("a", "b"), [(F32, I32), (F64, I64), (U8, torch.int8)], ids=str)
def test_same_bits(device: Device, a: torch.dtype, b: torch.dtype, width: int) -> None:
    for source, target in ((a, b), (b, a)):
        skip_without(device, source)
        skip_without(device, target)
        x = data_of(source)
        got = apply(device, "reinterpret", [x], target, width)
        assert torch.equal(got.view(torch.uint8), x.view(torch.uint8))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("half", [F16, BF16], ids=str)
def test_rounding_in_a_register(device: Device, half: torch.dtype, width: int) -> None:
    """A cast to a half type rounds although nothing is stored as one: ties, limits, denormals."""
    x = floats(-math.inf, math.inf)
    exact = floats(-70000.0, 70000.0, 5).to(half)
    finite = exact[torch.isfinite(exact)].float()
    step = torch.from_numpy(np.spacing(finite.half().numpy()).astype(np.float32))
    if half is BF16:
        step = torch.from_numpy(np.spacing(finite.numpy())) * 65536
    n = min(len(finite), COUNT - 1024)
    x[1024 : 1024 + n] = finite[:n] + step[:n] / 2  # halfway between neighbours
    x[200:210] = torch.tensor(
        [65519.0, 65520.0, 65535.0, 6e-8, 3e-8, 2.98e-8, 2.99e-8, 6.1e-5, 6.09e-5, 1e-7]
    )
    target = EmitTarget(width, device.info)
    node = Expr("cast", (Expr("load", (), F32, "in0"),), half)
    kind = register_type(F32, width)
    lines = [
        f"const long i = (long)get_global_id(0) * {width};",
        f"const {kind} x0 = {emit_load(target, F32, 'in0', 'i')};",
        f"const {kind} y = {emit_primitive(target, node, ['x0'])};",
        emit_store(target, F32, "out", "i", "y"),
    ]
    got = run(device, wrap_kernel(target, (F32,), F32, lines), [x], F32, width)
    want = x.to(half).float()
    flushed = (want.abs() < TINY) & (got.abs() < TINY)
    torch.testing.assert_close(got[~flushed], want[~flushed], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_load_store_at_any_element(device: Device, dtype: torch.dtype, width: int) -> None:
    skip_without(device, dtype)
    x = data_of(dtype)
    target = EmitTarget(width, device.info)
    kind = register_type(dtype, width)
    lines = [
        # One element in: vectors are not aligned. The last ones wrap to the start.
        f"const long i = ((long)get_global_id(0) * {width} + 1) % ({COUNT} - {width});",
        f"const {kind} y = {emit_load(target, dtype, 'in0', 'i')};",
        emit_store(target, dtype, "out", "i", "y"),
    ]
    got = run(device, wrap_kernel(target, (dtype,), dtype, lines), [x], dtype, width)
    written = slice(1, COUNT - 2 * width)
    torch.testing.assert_close(got[written], x[written], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_gather_lanes(device: Device, dtype: torch.dtype, width: int) -> None:
    skip_without(device, dtype)
    x = data_of(dtype)
    target = EmitTarget(width, device.info)
    indices = [f"{COUNT - 1} - (i + {k})" for k in range(width)]
    lines = [
        f"const long i = (long)get_global_id(0) * {width};",
        f"const {register_type(dtype, width)} y = "
        f"{emit_gather_lanes(target, dtype, 'in0', indices)};",
        emit_store(target, dtype, "out", "i", "y"),
    ]
    got = run(device, wrap_kernel(target, (dtype,), dtype, lines), [x], dtype, width)
    torch.testing.assert_close(got, x.flip(0), rtol=0, atol=0, equal_nan=True)
