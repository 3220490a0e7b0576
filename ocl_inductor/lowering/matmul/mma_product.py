"""When and how a matrix product goes through a GPU's matrix instructions
(templates/gemm/mma_gemm.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from ocl_inductor.ir.index import Size, is_static, prod, same
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import StridedView, Value, strided_view
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.matmul.product_operands import realize_operand, with_split_batch
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.mma_gemm import MMA_GEMM, Half, MmaGemmParams
from ocl_inductor.templates.gemm.skinny_gemm import VERY_FEW
from ocl_inductor.templates.mma_tiles import DEPTH, MmaWork, choose_mma_tile, fitting_mma_tiles

#: The types that are multiplied, as the instruction calls them.
HALVES: Mapping[torch.dtype, Half] = {torch.bfloat16: "bf16", torch.float16: "f16"}
#: Elements that are copied at once, 16 bytes.
RUN = 8
#: Terms from which a product pays.
_MIN_TERMS = 16


def mma_product(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product of a half type to float32."""
    a, b, out_order = problem.a, problem.b, problem.order
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    if not takes_halves(ctx, a, b):
        return Declined("the device has no matrix instructions for these dtypes")
    if not is_static(k) or not is_static(n):
        return Declined("the numbers of terms and columns are not known")
    if int(k) % RUN or int(k) < _MIN_TERMS:
        return Declined(f"sums of {k} terms: not a multiple of {RUN} of at least {_MIN_TERMS}")
    if ctx.hint(m) <= VERY_FEW or int(n) <= VERY_FEW:
        return Declined(f"{m} rows and {n} columns are too few for its tiles")
    out_batch = a.size[:-2]
    a, b = with_split_batch(a, b)
    a, a_view = _in_runs(ctx, a, (-1, -2))
    b, b_view = _in_runs(ctx, b, (-2, -1))
    batch = a.size[:-2]
    batches = ctx.hint(prod(batch)) if batch else 1
    tile, parts = choose_mma_tile(ctx.device, MmaWork(ctx.hint(m), int(n), batches, int(k)))
    params = MmaGemmParams(
        m=m, n=int(n), k=int(k),
        batch=batch, out_batch=out_batch, out_order=out_order,
        a_offset=a_view.offset, a_strides=a_view.stride,
        b_offset=b_view.offset, b_strides=b_view.stride,
        half=HALVES[a.dtype], acc="float", tile=tile,
    )  # fmt: skip
    size, order = (*out_batch, m, n), (*out_order, len(out_batch) + 1)
    if parts == 1:
        return ctx.template(MMA_GEMM, torch.float32, size, order, [a, b], params)
    chunk = ceil_div(ceil_div(int(k), parts), DEPTH) * DEPTH
    parts = ceil_div(int(k), chunk)
    # The parts of one row are neighbours.
    order = (*(d + 1 for d in out_order), 0)
    params = replace(
        params,
        k_chunk=chunk,
        batch=(parts, *batch), out_batch=(parts, *out_batch), out_order=order,
        a_strides=(chunk * a_view.stride[-1], *a_view.stride),
        b_strides=(chunk * b_view.stride[-2], *b_view.stride),
    )  # fmt: skip
    size = (parts, *size)
    found = ctx.template(MMA_GEMM, torch.float32, size, (*order, len(size) - 1), [a, b], params)
    return ctx.reduce(found, [0], "sum")


def takes_halves(ctx: LoweringContext, a: Value, b: Value) -> bool:
    """Whether the device multiplies numbers of their type, from memory in whole runs."""
    device = ctx.device
    return (
        bool(device.mma)
        and device.aligned_buffers
        and a.dtype in HALVES
        and a.dtype is b.dtype
        and bool(fitting_mma_tiles(device))
    )


def _in_runs(ctx: LoweringContext, value: Value, dims: Sequence[int]) -> tuple[Value, StridedView]:
    """``value`` in memory, in whole runs along one of ``dims``.

    Where it is not, a copy has them along the first.
    """
    value, view = realize_operand(ctx, value, value.dtype)
    if any(_has_runs(view, d) for d in dims):
        return value, view
    last = value.ndim + dims[0]
    value = ctx.realize(value, (*(d for d in range(value.ndim) if d != last), last))
    found = strided_view(value)
    assert found is not None and _has_runs(found, dims[0])  # of k terms, in whole runs
    return value, found


def _has_runs(view: StridedView, dim: int) -> bool:
    """Whether runs along ``dim`` are whole and lie where 16 bytes may."""
    nd = len(view.size)
    others: list[Size] = [view.offset, view.size[dim]]
    steps = zip(view.size, view.stride, strict=True)
    others += [s for d, (n, s) in enumerate(steps) if d != nd + dim and not same(n, 1)]
    return same(view.stride[dim], 1) and all(is_static(x) and int(x) % RUN == 0 for x in others)
