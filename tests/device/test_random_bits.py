"""Philox in OpenCL, scalar and vector, on every driver: published vectors, and torch's version."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from known_answers import KNOWN_ANSWERS
from primitive_kernels import (
    COUNT,
    I32,
    I64,
    WIDTHS,
    apply,
    build,
    integers,
    run,
    with_prelude,
    wrap_kernel,
)

from ocl_inductor.codegen.printers.primitives import (
    EmitTarget,
    emit_load,
    emit_primitive,
    emit_random_run,
    emit_store,
    positions_of_a_counter,
)
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Expr
from ocl_inductor.operators import philox

REFERENCES = {"random32": (philox.random32, I32), "random64": (philox.random64, I64)}
SEEDS = (0, -1, 81985529216486895, -(2**63))
STREAM = (1 << 30) + 5


def call_on(device: Device, body: str, words: int) -> list[int]:
    """Run a kernel ``k(out)`` of one work-item and return the words it wrote."""
    cl = load_pyopencl()
    text = f"__kernel void k(__global uint *out) {{\n{body}\n}}\n"
    kernel = build(device, with_prelude(device.info, text))
    out = cl.Buffer(device.context, cl.mem_flags.WRITE_ONLY, 4 * words)
    kernel.set_args(out)
    cl.enqueue_nd_range_kernel(device.queue, kernel, (1,), (1,))
    data = np.empty(words, np.uint32)
    cl.enqueue_copy(device.queue, data, out)
    return [int(x) for x in data]


@pytest.mark.parametrize("width", WIDTHS)
def test_known_answers(device: Device, width: int) -> None:
    kind = "uint" if width == 1 else f"uint{width}"
    for counter, key, answer in KNOWN_ANSWERS:
        lines = [f"{kind} c{k} = {w}u;" for k, w in enumerate(counter)]
        lines.append(f"ocl_philox_{kind}(&c0, &c1, &c2, &c3, {key[0]}u, {key[1]}u);")
        for k in range(4):
            if width == 1:
                lines.append(f"out[{k}] = c{k};")
            else:
                lines.append(f"vstore{width}(c{k}, {k}, out);")
        got = call_on(device, "\n".join(lines), 4 * width)
        assert got == [w for w in answer for _ in range(width)]


@pytest.mark.parametrize("width", (2, 8, 16))
def test_known_answers_in_pairs(device: Device, width: int) -> None:
    kind, part = f"uint{width}", f"uint{width // 2}" if width > 2 else "uint"
    for counter, key, answer in KNOWN_ANSWERS:
        c0, c1, c2, c3 = (f"({part})({w}u)" for w in counter)
        lines = [
            f"{kind} x = ({kind})({c0}, {c2}), y = ({kind})({c1}, {c3});",
            f"ocl_philox_pairs_{kind}(&x, &y, {key[0]}u, {key[1]}u);",
            f"vstore{width}(x, 0, out);",
            f"vstore{width}(y, 1, out);",
        ]
        got = call_on(device, "\n".join(lines), 2 * width)
        assert got == [answer[k] for k in (0, 2, 1, 3) for _ in range(width // 2)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("position", [I32, I64], ids=str)
@pytest.mark.parametrize("name", ["random32", "random64"])
def test_bits_of_any_positions(
    device: Device, name: str, position: torch.dtype, width: int
) -> None:
    """Each lane by itself: positions in no order, up to the largest."""
    reference, result = REFERENCES[name]
    x = integers(position).abs().clamp(min=0)
    x[:COUNT:3] = torch.randint(0, torch.iinfo(position).max, (len(x[:COUNT:3]),), dtype=position)
    target = EmitTarget(width, device.info)
    operands = (Expr("load", (), position, "in0"), *_scalars())
    text = emit_primitive(target, Expr(name, operands, result), ["x0", "seed", "stream"])
    load = emit_load(target, position, "in0", "i")
    lines = [
        f"const long i = (long)get_global_id(0) * {width}, seed = in1[0];",
        f"const int stream = {STREAM};",
        f"const {register_type(position, width)} x0 = {load};",
        f"const {register_type(result, width)} y = {text};",
        emit_store(target, result, "out", "i", "y"),
    ]
    source = wrap_kernel(target, (position, I64), result, lines)
    for seed in SEEDS:
        got = run(device, source, [x, torch.tensor([seed])], result, width)
        assert torch.equal(got, reference(x.long(), seed, STREAM))


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("name", ["random32", "random64"])
def test_bits_of_a_run(device: Device, name: str, width: int) -> None:
    """Neighbouring positions, from small ones to those that need a second word of the counter."""
    reference, result = REFERENCES[name]
    target = EmitTarget(width, device.info)
    node = Expr(name, (Expr("load", (), I64, "in0"), *_scalars()), result)
    assert width % positions_of_a_counter(node) == 0
    lines = [
        f"const long i = in0[0] + (long)get_global_id(0) * {width}, seed = in0[1];",
        f"const int stream = {STREAM};",
        f"const {register_type(result, width)} y = "
        f"{emit_random_run(target, node, 'i', ['seed', 'stream'])};",
        emit_store(target, result, "out", "i - in0[0]", "y"),
    ]
    source = wrap_kernel(target, (I64,), result, lines)
    for start, seed in zip((0, 4, 2**31 - 64, 2**34 - 64, 2**62), (*SEEDS, 5), strict=True):
        got = run(device, source, [torch.tensor([start, seed])], result, width)
        assert torch.equal(got, reference(start + torch.arange(COUNT), seed, STREAM))


@pytest.mark.parametrize("width", WIDTHS)
def test_mul_hi(device: Device, width: int) -> None:
    g = torch.Generator().manual_seed(1)
    a, b = integers(I64, 0), integers(I64, 1)
    half = COUNT // 2
    for t in (a, b):
        t[half:] = torch.randint(-(2**63), 2**63 - 1, (half,), generator=g)
    got = apply(device, "mul_hi", [a, b], I64, width)
    assert torch.equal(got, philox.multiply_high(a, b))


def _scalars() -> tuple[Expr, Expr]:
    return Expr("const", (), I64, 0), Expr("const", (), I32, STREAM)
