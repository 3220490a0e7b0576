"""Every primitive in OpenCL, scalar and vector, on every driver, against double precision.

Errors are in units in the last place of float32, of the exact result rounded to float32.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ocl_inductor.codegen.primitives import (
    PRIMITIVES,
    Target,
    emit_gather_lanes,
    emit_load,
    emit_store,
    prelude,
)
from ocl_inductor.device import Device, DeviceInfo
from ocl_inductor.drivers import load_pyopencl
from ocl_inductor.dtypes import MEMORY_TYPE, REGISTER_TYPE, register_type
from ocl_inductor.ir.expr import Expr

WIDTHS = (1, 8, 16)
COUNT = 4096  # elements in every test: a multiple of every width
TINY = float(np.finfo(np.float32).tiny)
I8, I16, I32, I64, U8 = torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8
F16, BF16, F32, F64, BOOL = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
)
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, 88.0, 89.0, -87.0, -104.0, 1e-3, -1e-3,
    1e-10, 1e-30, -1e-30, TINY, 1e20, -1e20, 3e38, -3e38, math.inf, -math.inf, math.nan, 0.625,
    0.925, 0.70710678, 1.41421356, 8.0, 1e4, 2.5, 3.5, -2.5, 65504.0, 16777216.0,
]  # fmt: skip


# -- building and running ------------------------------------------------------------------------


def kernel_source(
    info: DeviceInfo, name: str, operands: tuple[torch.dtype, ...], result: torch.dtype, width: int
) -> str:
    """A kernel ``k(in0, .., out)`` that applies one primitive to ``width`` elements a work-item."""
    target = Target(width, info)
    node = Expr(name, tuple(Expr("load", (), d, f"in{i}") for i, d in enumerate(operands)), result)
    lines = [f"const long i = (long)get_global_id(0) * {width};"]
    for k, dtype in enumerate(operands):
        kind = register_type(dtype, width)
        lines.append(f"const {kind} x{k} = {emit_load(target, dtype, f'in{k}', 'i')};")
    text = PRIMITIVES[name].emit(target, node, [f"x{k}" for k in range(len(operands))])
    lines.append(f"const {register_type(result, width)} y = {text};")
    lines.append(emit_store(target, result, "out", "i", "y"))
    return wrap_kernel(target, operands, result, lines)


def wrap_kernel(
    target: Target, operands: tuple[torch.dtype, ...], result: torch.dtype, lines: list[str]
) -> str:
    arguments = [f"__global const {MEMORY_TYPE[d]} *in{k}" for k, d in enumerate(operands)]
    arguments.append(f"__global {MEMORY_TYPE[result]} *out")
    body = f"__kernel void k({', '.join(arguments)}) {{\n" + "\n".join(lines) + "\n}\n"
    return prelude(target, body) + body


@functools.cache
def build(device: Device, source: str):
    cl = load_pyopencl()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = list(device.info.build_options)
        program = cl.Program(device.context, source).build(options=options, cache_dir=False)
    return cl.Kernel(program, "k")


def run(
    device: Device, source: str, inputs: list[torch.Tensor], result: torch.dtype, width: int
) -> torch.Tensor:
    """Run kernel ``k`` over ``COUNT`` elements and return what it wrote to ``out``."""
    skip_unsuitable(device, width)
    cl = load_pyopencl()
    out = torch.zeros(COUNT, dtype=result)
    flags = cl.mem_flags
    buffers = []
    for t in inputs:
        data = t.contiguous().view(torch.uint8).numpy()
        buffers.append(
            cl.Buffer(device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=data)
        )
    out_buffer = cl.Buffer(device.context, flags.WRITE_ONLY, out.nbytes)
    kernel = build(device, source)
    kernel.set_args(*buffers, out_buffer)
    cl.enqueue_nd_range_kernel(device.queue, kernel, (COUNT // width,), (1,))
    data = np.empty(out.nbytes, np.uint8)
    cl.enqueue_copy(device.queue, data, out_buffer)
    return torch.from_numpy(data).view(result)


def skip_unsuitable(device: Device, width: int) -> None:
    if width > 1 and device.info.profile == "simt":
        pytest.skip("vectors are not emitted for this device")


def apply(
    device: Device, name: str, inputs: list[torch.Tensor], result: torch.dtype, width: int
) -> torch.Tensor:
    operands = tuple(t.dtype for t in inputs)
    source = kernel_source(device.info, name, operands, result, width)
    return run(device, source, inputs, result, width)


# -- data ----------------------------------------------------------------------------------------


def floats(low: float, high: float, seed: int = 0, dtype: torch.dtype = F32) -> torch.Tensor:
    """Special values, numbers of every magnitude, and a uniform sample, clipped to an interval."""
    g = torch.Generator().manual_seed(seed)
    uniform = torch.rand(COUNT, generator=g, dtype=F64) * (high - low) + low
    if math.isinf(low) or math.isinf(high):
        uniform = torch.randn(COUNT, generator=g, dtype=F64) * 20
    x = uniform.clone()
    magnitude = torch.exp2(torch.rand(COUNT, generator=g, dtype=F64) * 120 - 90)
    signs = torch.randint(0, 2, (COUNT,), generator=g) * 2 - 1
    x[::3] = (magnitude * signs)[::3]
    x[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=F64)
    outside = (x < low) | (x > high)
    x[outside] = uniform[outside]
    return x.to(dtype)


def integers(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    if dtype is BOOL:
        return torch.randint(0, 2, (COUNT,), generator=torch.Generator().manual_seed(seed)).bool()
    info = torch.iinfo(dtype)
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(max(info.min, -100), min(info.max, 100), (COUNT,), generator=g, dtype=dtype)
    edges = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, 7]
    if info.min < 0:
        edges.append(-1)
    pairs = list(itertools.product(edges, edges))
    for k, pair in enumerate(pairs):
        x[k] = pair[seed % 2]
    return x


def data_of(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    if dtype.is_floating_point:
        return floats(-math.inf, math.inf, seed, dtype)
    return integers(dtype, seed)


# -- comparing -----------------------------------------------------------------------------------


def ulps(got: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest error; special values must agree; results below float32's range may be flushed."""
    rounded = exact.to(F32)
    nan = torch.isnan(rounded)
    assert torch.equal(torch.isnan(got), nan), "NaN in different places"
    # A rounding away from overflow may end on either side of it.
    near_overflow = (exact.abs() > 3.4028e38) & ~torch.isinf(exact)
    inf = torch.isinf(rounded) & ~near_overflow
    assert torch.equal(got[inf], rounded[inf]), "infinities differ"
    rest = ~(nan | inf | near_overflow)
    spacing = np.spacing(rounded[rest].abs().clamp(min=TINY).numpy()).astype(np.float64)
    error = (got[rest].double() - exact[rest]).abs().numpy() / spacing
    small = exact[rest].abs().numpy() < TINY
    error[small & (got[rest].abs().numpy() <= TINY)] = 0
    return float(error.max(initial=0.0))


#: name: (low, high, bound in ulp). The interval is where the function is tested.
UNARY: dict[str, tuple[float, float, float]] = {
    "abs": (-math.inf, math.inf, 0),
    "neg": (-math.inf, math.inf, 0),
    "exp": (-math.inf, math.inf, 3),
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
SPECIAL_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
}


def exact_unary(name: str, x: torch.Tensor) -> torch.Tensor:
    fn = SPECIAL_FUNCTIONS.get(name) or getattr(torch, name)
    return fn(x.double())


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
    torch.testing.assert_close(got, want, rtol=0, atol=1.5e-7, equal_nan=True)
    tail = (x < 0) & (x > -4)
    torch.testing.assert_close(got[tail], want[tail], rtol=2e-5, atol=0)


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


def skip_without(device: Device, *dtypes: torch.dtype) -> None:
    if F64 in dtypes and not device.info.fp64:
        pytest.skip("no double precision")


# -- integers ------------------------------------------------------------------------------------

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


# -- comparison, logic, choice -------------------------------------------------------------------


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


# -- conversions and memory ----------------------------------------------------------------------

ALL = [F32, F64, F16, BF16, I8, I16, I32, I64, U8, BOOL]


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
    target = Target(width, device.info)
    node = Expr("cast", (Expr("load", (), F32, "in0"),), half)
    kind = register_type(F32, width)
    lines = [
        f"const long i = (long)get_global_id(0) * {width};",
        f"const {kind} x0 = {emit_load(target, F32, 'in0', 'i')};",
        f"const {kind} y = {PRIMITIVES['cast'].emit(target, node, ['x0'])};",
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
    target = Target(width, device.info)
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
    target = Target(width, device.info)
    indices = [f"{COUNT - 1} - (i + {k})" for k in range(width)]
    lines = [
        f"const long i = (long)get_global_id(0) * {width};",
        f"const {register_type(dtype, width)} y = "
        f"{emit_gather_lanes(target, dtype, 'in0', indices)};",
        emit_store(target, dtype, "out", "i", "y"),
    ]
    got = run(device, wrap_kernel(target, (dtype,), dtype, lines), [x], dtype, width)
    torch.testing.assert_close(got, x.flip(0), rtol=0, atol=0, equal_nan=True)


def test_whole_library_builds(device: Device) -> None:
    for width in (1, 2, 4, 8, 16):
        source = prelude(Target(width, device.info))
        build(device, source + "__kernel void k(__global float *a) { a[0] = 1.0f; }")


def test_every_primitive_has_a_test() -> None:
    structural = {"as"}
    names = ("test_primitives.py", "test_random_bits.py", "test_special.py")
    files = [Path(__file__).with_name(n) for n in names]
    text = "".join(f.read_text(encoding="utf-8") for f in files)
    missing = [n for n in PRIMITIVES if n not in structural and f'"{n}"' not in text]
    assert not missing
    assert set(REGISTER_TYPE) == set(MEMORY_TYPE)
