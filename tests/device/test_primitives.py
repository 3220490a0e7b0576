"""Every primitive in OpenCL, scalar and vector, on every driver, against double precision."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from primitive_kernels import (
    BOOL,
    COUNT,
    F32,
    F64,
    I32,
    TINY,
    U8,
    WIDTHS,
    apply,
    build,
    data_of,
    floats,
    run,
    skip_without,
    ulps,
    wrap_kernel,
)

from ocl_inductor.codegen.prelude import unaligned_types
from ocl_inductor.codegen.printers.math_library import whole_library
from ocl_inductor.codegen.printers.primitives import (
    EmitTarget,
    emit_load,
    emit_store,
)
from ocl_inductor.device.device import Device
from ocl_inductor.ir.ops import PRIMITIVES

#: name: (low, high, bound in ulp). The interval is where the function is tested.
UNARY: dict[str, tuple[float, float, float]] = {
    "abs": (-math.inf, math.inf, 0),
    "neg": (-math.inf, math.inf, 0),
    "exp": (-math.inf, math.inf, 3),
    "exp_negative": (-200.0, 0.0, 2),
    "exp2": (-math.inf, math.inf, 3),
    "expm1": (-math.inf, math.inf, 3),
    "log": (-math.inf, math.inf, 3),
    "log2": (-math.inf, math.inf, 3),
    "log10": (-math.inf, math.inf, 3),
    "log1p": (-math.inf, math.inf, 3),
    "sqrt": (-math.inf, math.inf, 1),
    "rsqrt": (-math.inf, math.inf, 2),
    "reciprocal": (-math.inf, math.inf, 1),
    "sin": (-math.inf, math.inf, 4),
    "cos": (-math.inf, math.inf, 4),
    "tan": (-math.inf, math.inf, 5),
    "asin": (-math.inf, math.inf, 4),
    "acos": (-math.inf, math.inf, 4),
    "atan": (-math.inf, math.inf, 4),
    "sinh": (-math.inf, math.inf, 4),
    "cosh": (-math.inf, math.inf, 4),
    "tanh": (-math.inf, math.inf, 4),
    "asinh": (-math.inf, math.inf, 4),
    "acosh": (-math.inf, math.inf, 4),
    "atanh": (-math.inf, math.inf, 5),
    "erf": (-math.inf, math.inf, 4),
    "erfc": (-math.inf, math.inf, 16),
    "erfinv": (-math.inf, math.inf, 12),
    "sigmoid": (-80.0, 200.0, 4),
    "floor": (-math.inf, math.inf, 0),
    "ceil": (-math.inf, math.inf, 0),
    "round": (-math.inf, math.inf, 0),
    "trunc": (-math.inf, math.inf, 0),
    "sign": (-math.inf, math.inf, 0),
    "sgn": (-math.inf, math.inf, 0),
    "lgamma": (2.5, 1e6, 8),
    "digamma": (1.6, 1e6, 16),
    "i0": (-80.0, 80.0, 100),
    "i0e": (-math.inf, 1e30, 16),
    "i1": (-80.0, 80.0, 100),
    "i1e": (-1e30, 1e30, 16),
    "frac": (-1e6, 1e6, 0),
}


def exact_unary(name: str, x: torch.Tensor) -> torch.Tensor:
    reference = PRIMITIVES[name].reference
    assert reference is not None, name
    return reference(x.double())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(device: Device, name: str, width: int) -> None:
    low, high, bound = UNARY[name]
    x = floats(low, high)
    got = apply(device, name, [x], F32, width)
    assert ulps(got, exact_unary(name, x)) <= bound


@pytest.mark.parametrize("width", WIDTHS)
def test_normal_cdf(device: Device, width: int) -> None:
    """What gelu needs of it: absolute accuracy, and a tail that has not cancelled."""
    x = floats(-math.inf, math.inf)
    got = apply(device, "normal_cdf", [x], F32, width).double()
    want = torch.special.ndtr(x.double())
    torch.testing.assert_close(got, want, rtol=0, atol=1e-7, equal_nan=True)
    tail = (x < 0) & (x > -5.4)
    torch.testing.assert_close(got[tail], want[tail], rtol=1e-5, atol=0)


@pytest.mark.parametrize("width", WIDTHS)
def test_exp_negative(device: Device, width: int) -> None:
    """Every exponent down to the subnormal numbers, which count from 0, and what is no number."""
    x = torch.cat([torch.linspace(-104.5, 0, COUNT - 2), torch.tensor([-math.inf, math.nan])])
    got = apply(device, "exp_negative", [x], F32, width).double()
    want = x.double().exp()
    if width == 1:  # the builtin, which may flush subnormal results
        got, want = (torch.where(t < TINY, 0.0, t) for t in (got, want))
    torch.testing.assert_close(got, want, rtol=1.5e-7, atol=2e-45, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_exp_negative_or_zero(device: Device, width: int) -> None:
    """What attention's kernels call: results that would be subnormal are 0, exactly for -inf."""
    target = EmitTarget(width, device.info)
    suffix = "" if width == 1 else str(width)
    lines = [
        f"const long i = (long)get_global_id(0) * {width};",
        f"const float{suffix} x = {emit_load(target, F32, 'in0', 'i')};",
        f"const float{suffix} y = ocl_exp_negative_or_zero_float{suffix}(x);",
        emit_store(target, F32, "out", "i", "y"),
    ]
    x = torch.cat([torch.linspace(-104.5, 0, COUNT - 3), torch.tensor([-300, -math.inf, math.nan])])
    got = run(device, wrap_kernel(target, (F32,), F32, lines), [x], F32, width)
    want = x.double().exp()
    torch.testing.assert_close(got.double(), want, rtol=1.5e-7, atol=2 * TINY, equal_nan=True)
    assert not got[x < -88].any() and got[-4] == 1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", UNARY)
def test_unary_double(device: Device, name: str, width: int) -> None:
    """In units of double's last place, against eager, which is good to about one."""
    skip_without(device, F64)
    low, high, bound = UNARY[name]
    x = floats(low, high, dtype=F64)
    got, want = apply(device, name, [x], F64, width), exact_unary(name, x)
    rtol = (2 * bound + 6) * 2.0**-52
    torch.testing.assert_close(got, want, rtol=rtol, atol=1e-300, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_logaddexp(device: Device, width: int) -> None:
    """The error is absolute near 0, where the terms cancel."""
    a, b = floats(-90.0, 90.0), floats(-90.0, 90.0).flip(0)
    b[::3] = a[::3] + 1e-3
    got = apply(device, "logaddexp", [a, b], F32, width).double()
    exact = torch.logaddexp(a.double(), b.double())
    torch.testing.assert_close(got, exact, rtol=3e-7, atol=3e-7, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_unary_where_conditioning_is_poor(device: Device, name: str, width: int) -> None:
    """Near their zeros and poles these lose digits in every library: the error is absolute."""
    x = floats(-30.0, 30.0)
    got, exact = apply(device, name, [x], F32, width), exact_unary(name, x)
    poles = (x <= 0) & (x == x.round())
    assert torch.equal(torch.isnan(got)[poles], torch.isnan(exact)[poles])
    assert torch.equal(torch.isinf(got)[poles], torch.isinf(exact)[poles])
    far = ~poles & ((x - x.round()).abs() > 1e-2)
    torch.testing.assert_close(got[far].double(), exact[far], rtol=2e-4, atol=2e-5)


#: name: (reference in double precision, bound in ulp, operands)
BINARY: dict[str, tuple[Callable[..., torch.Tensor], float]] = {
    "add": (torch.add, 0.5),
    "sub": (torch.sub, 0.5),
    "mul": (torch.mul, 0.5),
    "div": (torch.div, 1.0),
    "minimum": (torch.minimum, 0),
    "maximum": (torch.maximum, 0),
    "fmin": (torch.fmin, 0),
    "fmax": (torch.fmax, 0),
    "fmod": (torch.fmod, 0),
    "atan2": (torch.atan2, 6),
    "copysign": (torch.copysign, 0),
    "hypot": (torch.hypot, 4),
}


def pair(seed: int = 0) -> list[torch.Tensor]:
    """Two float operands: all pairs of some special values, then samples of like magnitude."""
    a, b = floats(-math.inf, math.inf, 1), floats(-math.inf, math.inf, 2)
    b[1::2] = a[1::2] * torch.rand(COUNT, generator=torch.Generator().manual_seed(3))[1::2] * 4
    chosen = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, math.inf, -math.inf, math.nan, 1e-30, 1e30]
    for k, (u, v) in enumerate(itertools.product(chosen, chosen)):
        a[k], b[k] = u, v
    return [a, b]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(device: Device, name: str, width: int) -> None:
    reference, bound = BINARY[name]
    a, b = pair()
    got = apply(device, name, [a, b], F32, width)
    assert ulps(got, reference(a.double(), b.double())) <= bound


@pytest.mark.parametrize("width", WIDTHS)
def test_pow(device: Device, width: int) -> None:
    a, b = pair()
    b = torch.where(b.abs() > 30, torch.round(b / 1e20), b)
    exact = torch.pow(a.double(), b.double())
    assert ulps(apply(device, "pow", [a, b], F32, width), exact) <= 16


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["remainder", "floor_div", "trunc_div"])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_float_division(device: Device, name: str, width: int, dtype: torch.dtype) -> None:
    skip_without(device, dtype)
    a, b = (t.to(dtype) for t in pair())
    got = apply(device, name, [a, b], dtype, width)
    if name == "remainder":
        want = torch.tensor(
            [python_remainder(x, y) for x, y in zip(a.tolist(), b.tolist())], dtype=F64
        )
        want = want.to(dtype)
    else:
        want = torch.div(a, b, rounding_mode=name[:-4])
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def python_remainder(x: float, y: float) -> float:
    """With the divisor's sign. (Eager's vectorised float32 kernel gives NaN for 1e30 % 1e-30.)"""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    r = math.fmod(x, y)
    return r + y if r != 0 and (r < 0) != (y < 0) else r


@pytest.mark.parametrize("width", WIDTHS)
def test_nextafter(device: Device, width: int) -> None:
    a, b = pair()
    got = apply(device, "nextafter", [a, b], F32, width)
    want = torch.nextafter(a, b)
    ok = want.abs() >= TINY  # a driver may flush smaller ones
    torch.testing.assert_close(got[ok], want[ok], rtol=0, atol=0)
    assert torch.equal(torch.isnan(got), torch.isnan(want))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [F32, F64, I32, U8])
def test_predicates(device: Device, dtype: torch.dtype, width: int) -> None:
    skip_without(device, dtype)
    a = data_of(dtype)
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        got = apply(device, name, [a], BOOL, width)
        assert torch.equal(got, getattr(torch, name)(a)), name


@pytest.mark.parametrize("width", WIDTHS)
def test_fma_and_ldexp(device: Device, width: int) -> None:
    a, b, c = (floats(-1e3, 1e3, s) for s in range(3))
    got = apply(device, "fma", [a, b, c], F32, width)
    torch.testing.assert_close(
        got.double(), a.double() * b + c, rtol=1e-5, atol=1e-5, equal_nan=True
    )
    n = torch.randint(-20, 20, (COUNT,), dtype=I32)
    got = apply(device, "ldexp", [a, n], F32, width)
    torch.testing.assert_close(got, torch.ldexp(a, n), rtol=0, atol=TINY, equal_nan=True)


def test_whole_library_builds(device: Device) -> None:
    for width in (1, 2, 4, 8, 16):
        definitions = [*unaligned_types(device.info.fp64), *whole_library(device.info, width)]
        source = "".join(f"{d.text}\n" for d in definitions)
        build(device, source + "__kernel void k(__global float *a) { a[0] = 1.0f; }")
