"""A Fourier transform along one dimension as one kernel, which reads each number once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod, same
from ocl_inductor.lowering.complex.pairs import conjugate, from_pairs, pairs_in_memory, seen_pairs
from ocl_inductor.lowering.complex.roots import unit_roots
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import (
    ComplexValue,
    StridedView,
    Value,
    buffer_value,
    permute,
    reshape,
    strided_view,
)
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.templates.fourier.fourier import FOURIER, FourierParams, Points
from ocl_inductor.templates.fourier.plan import StagePlan, plan


@dataclass(frozen=True, slots=True)
class Transform:
    """``n`` points along dimension ``dim`` with ``exp(sign * 2 pi i j k / n)``, times ``scale``.

    ``half``: of the ``n`` points the operand has the first ``n // 2 + 1``, the others are their
    conjugates, and the result is real. ``columns``: results that are wanted, the first ones.
    ``order``: that of the result's dimensions in memory, if there is a wish, outermost first.
    """

    operand: Value | ComplexValue
    dim: int
    n: int
    sign: int
    scale: float
    columns: int
    half: bool = False
    order: tuple[int, ...] | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of the real numbers."""
        x = self.operand
        return x.re.dtype if isinstance(x, ComplexValue) else x.dtype


def declined_points(device: DeviceInfo, n: int, dtype: torch.dtype) -> str | None:
    """Why no kernel takes ``n`` points of a real ``dtype``; None where one does."""
    if device.profile != "simt":
        return "a product is faster where work-items share no memory"
    found = plan(device, n, 2 * dtype.itemsize, across=False)
    return None if isinstance(found, StagePlan) else found


def one_kernel(ctx: LoweringContext, problem: Transform) -> Value | ComplexValue | Declined:
    """The result of the template."""
    declined = declined_points(ctx.device, problem.n, problem.dtype)
    if declined is not None:
        return Declined(declined)
    reads, operand, view = _in_memory(ctx, problem)
    ndim, dim = problem.operand.ndim, problem.dim
    order = problem.order or (*(d for d in range(ndim) if d != dim), dim)
    place = order.index(dim)
    before, after = _merged(view, order[:place]), _merged(view, order[place + 1 :])
    rows = [*before, *after] or [(1, 0)]
    strides = tuple(stride for _, stride in rows)
    step = view.stride[dim]
    params = FourierParams(
        acc=accumulator(problem.dtype), n=problem.n, sign=problem.sign, scale=problem.scale,
        reads=reads, columns=problem.columns, real=problem.half,
        rows=tuple(size for size, _ in rows), place=len(before) if after else len(rows),
        strides=strides, step=step, offset=view.offset,
        across=0 < ctx.hint(strides[-1]) < ctx.hint(step),
    )  # fmt: skip
    space = FOURIER.out_space(params)
    operands = [operand]
    found = params.plan(ctx.device)
    assert isinstance(found, StagePlan)
    if len(found.stages) > 1:
        operands.append(_factors(ctx, problem, found))
    made = ctx.template(FOURIER, problem.dtype, space, tuple(range(len(space))), operands, params)
    sizes = [problem.columns if d == dim else problem.operand.size[d] for d in order]
    back = [order.index(d) for d in range(ndim)]
    if problem.half:
        return permute(reshape(made, sizes), back)
    return from_pairs(permute(reshape(made, [*sizes, 2]), [*back, ndim]))


def _in_memory(ctx: LoweringContext, problem: Transform) -> tuple[Points, Value, StridedView]:
    """What the kernel reads, and where the dimensions of the operand lie in it."""
    x = problem.operand
    if isinstance(x, Value):
        value = ctx.realize(x)
        view = strided_view(value)
        assert view is not None
        return "real", value, view
    reads: Points = "half" if problem.half else "complex"
    view = seen_pairs(x)
    if view is None and not problem.half:
        view = seen_pairs(conjugate(x))
        reads = "complex" if view is None else "conjugate"
    if view is None:
        view = strided_view(pairs_in_memory(ctx, x))
        assert view is not None
    return reads, buffer_value(ctx.buffers[view.buffer]), view


def _merged(view: StridedView, dims: Sequence[int]) -> list[tuple[Size, Size]]:
    """Sizes and strides of dimensions, as few as describe the same rows in the same order."""
    found: list[tuple[Size, Size]] = []
    for d in dims:
        size, stride = view.size[d], view.stride[d]
        if same(size, 1):
            continue
        if found and same(found[-1][1], prod((size, stride))):
            size = prod((found.pop()[0], size))
        found.append((size, stride))
    return found


def _factors(ctx: LoweringContext, problem: Transform, of: StagePlan) -> Value:
    """The factors between stages, as ``Stage`` has them."""
    with _disable_current_modes():
        tables = []
        for stage in of.stages[1:]:
            q, j = torch.arange(1, stage.radix), torch.arange(stage.length)
            turns = torch.outer(q, j).reshape(-1)
            tables.append(unit_roots(turns, stage.radix * stage.length, problem.sign))
        pairs = torch.view_as_real(torch.cat(tables))
        return ctx.constant(pairs.to(problem.dtype).contiguous())
