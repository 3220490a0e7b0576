"""Views: every one of them is an index rewrite; nothing here copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Min, ModularIndexing, PythonMod

from ocl_inductor.ir.expr import Expr, compare, const, index_value, masked
from ocl_inductor.ir.index import Size, as_size, exact_quotient, is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    decide,
    normalize_dim,
    normalize_dims,
    reused,
    size_expr,
    static_sizes,
)
from ocl_inductor.lowering.core.values import ZERO, Value, expand, permute, reindex, reshape
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def infer_size(size: Sequence[Size], numel: Size) -> list[Size]:
    """Replace one -1 by what the number of elements leaves."""
    sizes = [as_size(s) for s in size]
    unknown = [d for d, s in enumerate(sizes) if is_static(s) and int(s) == -1]
    if not unknown:
        return sizes
    known = prod([s for d, s in enumerate(sizes) if d != unknown[0]])
    if is_static(known) and is_static(numel):
        sizes[unknown[0]] = int(numel) // max(int(known), 1)
    else:
        exact = exact_quotient(numel, known)
        sizes[unknown[0]] = as_size(FloorDiv(numel, known) if exact is None else exact)
    return sizes


@register(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def lower_view(ctx: LoweringContext, x: Value, size: Sequence[Size]) -> Value:
    """Row-major reinterpretation to ``size`` (one entry may be -1)."""
    return reshape(x, infer_size(size, prod(x.size)))


@register(aten.flatten.using_ints)
def lower_flatten(ctx: LoweringContext, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Dimensions ``start_dim`` to ``end_dim`` as one; a scalar becomes a vector of one."""
    if x.ndim == 0:
        return reshape(x, (1,))
    start, end = normalize_dim(start_dim, x.ndim), normalize_dim(end_dim, x.ndim)
    return reshape(x, (*x.size[:start], prod(x.size[start : end + 1]), *x.size[end + 1 :]))


@register(aten.expand.default)
def lower_expand(
    ctx: LoweringContext, x: Value, size: Sequence[Size], *, implicit: bool = False
) -> Value:
    lead = len(size) - x.ndim
    wanted = [as_size(s) for s in size]
    sizes = [
        x.size[d - lead] if d >= lead and is_static(s) and int(s) == -1 else s
        for d, s in enumerate(wanted)
    ]
    return expand(x, sizes)


@register(aten.permute.default)
def lower_permute(ctx: LoweringContext, x: Value, dims: Sequence[int]) -> Value:
    return permute(x, [normalize_dim(d, x.ndim) for d in dims])


@register(aten.transpose.int)
def lower_transpose(ctx: LoweringContext, x: Value, dim0: int, dim1: int) -> Value:
    dims = list(range(x.ndim))
    if not dims:
        return x
    a, b = normalize_dim(dim0, x.ndim), normalize_dim(dim1, x.ndim)
    dims[a], dims[b] = dims[b], dims[a]
    return permute(x, dims)


@register(aten.t.default)
def lower_t(ctx: LoweringContext, x: Value) -> Value:
    return x if x.ndim < 2 else permute(x, (1, 0))


def clamp_slice(
    ctx: LoweringContext, extent: Size, start: Size | None, end: Size | None
) -> tuple[Size, Size]:
    """``(start, end)`` of a Python slice within ``[0, extent]``, end not before start."""

    def clamp(position: Size) -> Size:
        position = as_size(position)
        if decide(ctx, position < 0):
            position = as_size(position + extent)
            if decide(ctx, position < 0):
                return 0
        return extent if decide(ctx, position >= extent) else position

    first = 0 if start is None else clamp(start)
    # INT64_MAX is how the exporter writes "to the end".
    last = extent if end is None or (is_static(end) and int(end) >= 2**62) else clamp(end)
    return first, (first if decide(ctx, last < first) else last)


def slice_view(x: Value, dim: int, start: Size, end: Size, step: int) -> Value:
    """``x[start:end:step]`` along ``dim`` with bounds already clamped."""
    length = as_size(end - start)
    if step != 1:
        length = (
            (int(length) + step - 1) // step
            if is_static(length)
            else FloorDiv(length + step - 1, step)
        )
    variables: list[sympy.Expr] = list(loop_vars(x.ndim))
    variables[dim] = variables[dim] * step + start
    return reindex(x, (*x.size[:dim], length, *x.size[dim + 1 :]), variables)


@register(aten.slice.Tensor)
def lower_slice(
    ctx: LoweringContext,
    x: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Value:
    dim = normalize_dim(dim, x.ndim)
    first, last = clamp_slice(ctx, x.size[dim], start, end)
    return slice_view(x, dim, first, last, int(step))


def select_view(x: Value, dim: int, position: Size) -> Value:
    """``x`` at ``position`` of ``dim``, which disappears."""
    variables = loop_vars(x.ndim - 1)
    index = [*variables[:dim], sympy.sympify(position), *variables[dim:]]
    return reindex(x, (*x.size[:dim], *x.size[dim + 1 :]), index)


@register(aten.select.int)
def lower_select(ctx: LoweringContext, x: Value, dim: int, index: Size) -> Value:
    dim = normalize_dim(dim, x.ndim)
    position = as_size(index)
    if decide(ctx, position < 0):
        position = as_size(position + x.size[dim])
    return select_view(x, dim, position)


def pieces(x: Value, dim: int, lengths: Sequence[Size]) -> tuple[Value, ...]:
    """Consecutive slices of the given lengths."""
    result = []
    start: Size = 0
    for length in lengths:
        end = as_size(start + length)
        result.append(slice_view(x, dim, start, end, 1))
        start = end
    return tuple(result)


@register(aten.split_with_sizes.default, aten.unsafe_split_with_sizes.default)
def lower_split_with_sizes(
    ctx: LoweringContext, x: Value, split_sizes: Sequence[Size], dim: int = 0
) -> tuple[Value, ...]:
    return pieces(x, normalize_dim(dim, x.ndim), [as_size(s) for s in split_sizes])


@register(aten.split.Tensor, aten.unsafe_split.Tensor)
def lower_split(
    ctx: LoweringContext, x: Value, split_size: Size, dim: int = 0
) -> tuple[Value, ...]:
    dim = normalize_dim(dim, x.ndim)
    traced = _traced_extents(ctx, dim)
    if traced is not None and not all(map(is_static, (x.size[dim], as_size(split_size)))):
        return pieces(x, dim, traced)
    extent, step = static_sizes((x.size[dim], as_size(split_size)), "split")
    if step == 0:
        return (x,)
    count = max((extent + step - 1) // step, 1)
    return pieces(x, dim, [min(step, extent - k * step) for k in range(count)])


def _traced_extents(ctx: LoweringContext, dim: int) -> list[Size] | None:
    """Sizes along ``dim`` of the results that were traced: how many there are is guarded."""
    results = None if ctx.fx_node is None else ctx.fx_node.meta.get("val")
    if not isinstance(results, (tuple, list)):
        return None
    return [as_size(r.shape[dim]) for r in results]


@register(aten.chunk.default, aten.unsafe_chunk.default)
def lower_chunk(ctx: LoweringContext, x: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    dim = normalize_dim(dim, x.ndim)
    traced = _traced_extents(ctx, dim)
    if traced is not None and not is_static(x.size[dim]):
        return pieces(x, dim, traced)
    (extent,) = static_sizes((x.size[dim],), "chunk")
    if extent == 0:
        return pieces(x, dim, [0] * chunks)
    return lower_split(ctx, x, (extent + chunks - 1) // chunks, dim)


@register(aten.unbind.int)
def lower_unbind(ctx: LoweringContext, x: Value, dim: int = 0) -> tuple[Value, ...]:
    dim = normalize_dim(dim, x.ndim)
    (extent,) = static_sizes((x.size[dim],), "unbind")
    return tuple(select_view(x, dim, k) for k in range(extent))


def drop_dims(x: Value, dims: Sequence[int]) -> Value:
    """Remove dimensions of extent 1."""
    kept = [d for d in range(x.ndim) if d not in dims]
    index: list[sympy.Expr] = [ZERO] * x.ndim
    for v, d in zip(loop_vars(len(kept)), kept, strict=True):
        index[d] = v
    return reindex(x, [x.size[d] for d in kept], index)


@register(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def lower_squeeze(ctx: LoweringContext, x: Value, dim: Any = None) -> Value:
    if isinstance(dim, (list, tuple)) and not dim:
        return x  # squeeze.dims with no dimension changes nothing; with None it means all
    dims = normalize_dims(dim, x.ndim)
    return drop_dims(x, [d for d in dims if same(x.size[d], 1)])


@register(aten.unsqueeze.default)
def lower_unsqueeze(ctx: LoweringContext, x: Value, dim: int) -> Value:
    dim = normalize_dim(dim, x.ndim + 1)
    variables = loop_vars(x.ndim + 1)
    return reindex(x, (*x.size[:dim], 1, *x.size[dim:]), variables[:dim] + variables[dim + 1 :])


@register(aten.flip.default)
def lower_flip(ctx: LoweringContext, x: Value, dims: Sequence[int]) -> Value:
    index: list[sympy.Expr] = list(loop_vars(x.ndim))
    for d in {normalize_dim(d, x.ndim) for d in dims} if x.ndim else ():
        index[d] = x.size[d] - 1 - index[d]
    return reindex(x, x.size, index)


@register(aten.roll.default)
def lower_roll(
    ctx: LoweringContext, x: Value, shifts: Sequence[Size], dims: Sequence[int] = ()
) -> Value:
    shifts = [shifts] if isinstance(shifts, (int, sympy.Expr)) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        flat = reshape(x, (prod(x.size),))
        return reshape(lower_roll(ctx, flat, shifts, [0]), x.size)
    index: list[sympy.Expr] = list(loop_vars(x.ndim))
    for shift, dim in zip(shifts, dims, strict=True):
        d = normalize_dim(dim, x.ndim)
        n, s = x.size[d], as_size(shift)
        if not (is_static(n) and is_static(s)):
            x = _rolled(ctx, reindex(x, x.size, index), d, s)
            index = list(loop_vars(x.ndim))
        elif int(n) > 1 and int(s) % int(n):
            # Repeated dimensions accumulate, so the previous index expression is shifted again.
            index[d] = ModularIndexing(index[d] + int(-s) % int(n), sympy.Integer(1), n)
    return reindex(x, x.size, index)


def _rolled(ctx: LoweringContext, x: Value, dim: int, shift: Size) -> Value:
    """Rolled by symbolic sizes: two parts, each of which lies in memory as ``x`` does, where a
    remainder of each coordinate would be a division by what the compiler does not know.
    """
    x = reused(ctx, x)
    n = x.size[dim]
    first = PythonMod(-sympy.sympify(shift), Max(n, 1))  # from there on comes what is in front
    here = loop_vars(x.ndim)[dim]

    def part(offset: sympy.Expr) -> Expr:
        return x.at([v + offset if v == here else v for v in loop_vars(x.ndim)])

    position, bound = index_value(here), size_expr(n - first)
    body = masked(compare("ge", position, bound), part(first - n), const(0, x.dtype))
    body = masked(compare("lt", position, bound), part(first), body)
    return reindex(Value(x.size, x.dtype, body), x.size, loop_vars(x.ndim))


@register(aten.unfold.default)
def lower_unfold(ctx: LoweringContext, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows of ``size`` along ``dim``, every ``step``; the window is the last dimension."""
    if x.ndim == 0:
        return reindex(x, (size,), [])
    dim = normalize_dim(dim, x.ndim)
    extent = x.size[dim]
    count = (
        (int(extent) - size) // step + 1
        if is_static(extent)
        else as_size(FloorDiv(extent - size, step) + 1)
    )
    variables = loop_vars(x.ndim + 1)
    index: list[sympy.Expr] = list(variables[:-1])
    index[dim] = index[dim] * step + variables[-1]
    return reindex(x, (*x.size[:dim], count, *x.size[dim + 1 :], size), index)


def diagonal_geometry(x: Value, offset: int, dim1: int, dim2: int) -> tuple[int, int, Size, int]:
    """``(d1, d2, length, offset)`` of a diagonal, with dimensions counted from the front."""
    d1, d2 = normalize_dim(dim1, x.ndim), normalize_dim(dim2, x.ndim)
    rows, columns = x.size[d1] + min(offset, 0), x.size[d2] - max(offset, 0)
    return d1, d2, as_size(Max(Min(rows, columns), 0)), offset


@register(aten.diagonal.default)
def lower_diagonal(
    ctx: LoweringContext, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    d1, d2, length, offset = diagonal_geometry(x, offset, dim1, dim2)
    kept = [d for d in range(x.ndim) if d not in (d1, d2)]
    variables = loop_vars(len(kept) + 1)
    index: list[sympy.Expr] = [ZERO] * x.ndim
    for v, d in zip(variables, kept, strict=False):
        index[d] = v
    index[d1] = variables[-1] + max(-offset, 0)
    index[d2] = variables[-1] + max(offset, 0)
    return reindex(x, [*(x.size[d] for d in kept), length], index)


@register(aten.repeat.default)
def lower_repeat(ctx: LoweringContext, x: Value, repeats: Sequence[Size]) -> Value:
    lead = len(repeats) - x.ndim
    times = [as_size(r) for r in repeats]
    old = [1] * lead + list(x.size)
    size = [prod((o, r)) for o, r in zip(old, times, strict=True)]
    index: list[sympy.Expr] = []
    for d, v in enumerate(loop_vars(len(size))):
        if d < lead:
            continue
        if same(times[d], 1) or same(old[d], 0):
            index.append(v)
        elif same(old[d], 1):
            index.append(ZERO)
        else:
            index.append(ModularIndexing(v, sympy.Integer(1), sympy.sympify(old[d])))
    return reindex(x, size, index)


@register(aten.pixel_shuffle.default)
def lower_pixel_shuffle(ctx: LoweringContext, x: Value, upscale_factor: int) -> Value:
    """``[*, C*r*r, H, W]`` to ``[*, C, H*r, W*r]``."""
    r = int(upscale_factor)
    *lead, c, h, w = x.size
    variables = loop_vars(x.ndim)
    vc, vh, vw = variables[-3:]
    channel = (vc * r + ModularIndexing(vh, sympy.Integer(1), sympy.Integer(r))) * r
    channel += ModularIndexing(vw, sympy.Integer(1), sympy.Integer(r))
    index = [*variables[:-3], channel, FloorDiv(vh, r), FloorDiv(vw, r)]
    channels = as_size(FloorDiv(sympy.sympify(c), r * r))
    return reindex(x, (*lead, channels, prod((h, r)), prod((w, r))), index)


@register(aten.pixel_unshuffle.default)
def lower_pixel_unshuffle(ctx: LoweringContext, x: Value, downscale_factor: int) -> Value:
    """``[*, C, H*r, W*r]`` to ``[*, C*r*r, H, W]``."""
    r = int(downscale_factor)
    *lead, c, h, w = x.size
    variables = loop_vars(x.ndim)
    vc, vh, vw = variables[-3:]
    row = vh * r + ModularIndexing(vc, sympy.Integer(r), sympy.Integer(r))
    column = vw * r + ModularIndexing(vc, sympy.Integer(1), sympy.Integer(r))
    index = [*variables[:-3], FloorDiv(vc, r * r), row, column]
    small = [as_size(FloorDiv(sympy.sympify(s), r)) for s in (h, w)]
    return reindex(x, (*lead, prod((c, r * r)), *small), index)


@register(aten.view_as_real.default, aten.view_as_complex.default)
def lower_complex_view(ctx: LoweringContext, x: Value) -> Value:
    raise CannotLower("complex numbers")
