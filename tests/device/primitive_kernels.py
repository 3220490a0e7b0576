"""Kernels of one primitive each: operands, running, and errors in units in the last place.

Units are those of float32, of the exact result rounded to float32.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings

import numpy as np
import pytest
import torch

from ocl_inductor.codegen.prelude import prelude
from ocl_inductor.codegen.printers.primitives import (
    EmitTarget,
    emit_load,
    emit_primitive,
    emit_store,
)
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import MEMORY_TYPE, register_type
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
ALL = [F32, F64, F16, BF16, I8, I16, I32, I64, U8, BOOL]
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, 88.0, 89.0, -87.0, -104.0, 1e-3, -1e-3,
    1e-10, 1e-30, -1e-30, TINY, 1e20, -1e20, 3e38, -3e38, math.inf, -math.inf, math.nan, 0.625,
    0.925, 0.70710678, 1.41421356, 8.0, 1e4, 2.5, 3.5, -2.5, 65504.0, 16777216.0,
]  # fmt: skip


def kernel_source(
    info: DeviceInfo, name: str, operands: tuple[torch.dtype, ...], result: torch.dtype, width: int
) -> str:
    """A kernel ``k(in0, .., out)`` that applies one primitive to ``width`` elements a work-item."""
    target = EmitTarget(width, info)
    node = Expr(name, tuple(Expr("load", (), d, f"in{i}") for i, d in enumerate(operands)), result)
    lines = [f"const long i = (long)get_global_id(0) * {width};"]
    for k, dtype in enumerate(operands):
        kind = register_type(dtype, width)
        lines.append(f"const {kind} x{k} = {emit_load(target, dtype, f'in{k}', 'i')};")
    text = emit_primitive(target, node, [f"x{k}" for k in range(len(operands))])
    lines.append(f"const {register_type(result, width)} y = {text};")
    lines.append(emit_store(target, result, "out", "i", "y"))
    return wrap_kernel(target, operands, result, lines)


def wrap_kernel(
    target: EmitTarget, operands: tuple[torch.dtype, ...], result: torch.dtype, lines: list[str]
) -> str:
    arguments = [f"__global const {MEMORY_TYPE[d]} *in{k}" for k, d in enumerate(operands)]
    arguments.append(f"__global {MEMORY_TYPE[result]} *out")
    body = f"__kernel void k({', '.join(arguments)}) {{\n" + "\n".join(lines) + "\n}\n"
    return with_prelude(target.device, body)


def with_prelude(device: DeviceInfo, text: str) -> str:
    """A program's text with what it uses of the library."""
    return "".join(f"{d.text}\n" for d in prelude(device, text)) + text


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
    if device.info.library_of_processor and width > device.info.vector_width:
        pytest.skip("such vectors are not emitted where the library is made for another target")


def apply(
    device: Device, name: str, inputs: list[torch.Tensor], result: torch.dtype, width: int
) -> torch.Tensor:
    operands = tuple(t.dtype for t in inputs)
    source = kernel_source(device.info, name, operands, result, width)
    return run(device, source, inputs, result, width)


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


def skip_without(device: Device, *dtypes: torch.dtype) -> None:
    if F64 in dtypes and not device.info.fp64:
        pytest.skip("no double precision")
