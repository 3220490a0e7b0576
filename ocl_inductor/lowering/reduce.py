"""Reductions: sums, extrema and their positions, moments, norms of vectors.

Half types accumulate in float32, integers in int64, as eager does. A reduction over no elements
never reaches the loop level: it is a constant here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import const, masked, op
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.pointwise import rounded
from ocl_inductor.lowering.registry import CannotLower, register
from ocl_inductor.lowering.shapes import (
    HALF_TYPES,
    cast_value,
    full,
    highest,
    in_bounds,
    lowest,
    normalize_dim,
    normalize_dims,
    reused,
    size_expr,
    without_broadcast,
)
from ocl_inductor.lowering.values import Value, expand, reindex

aten = torch.ops.aten

#: A result element that sums more than this is reduced in two stages, for parallelism and because
#: the error of a running float32 sum grows with its length.
MAX_SERIAL_ELEMENTS = 65536
#: Partial results that each output of a split reduction is made of.
PARTIALS = 256
#: Sums of columns of more bytes than a second-level cache go block by block; so much of one, and so
#: many rows, are a block.
BLOCK_SHARE = 1 / 8
MIN_BLOCK_ROWS = 16
#: On GPUs, of sums of columns: elements for each compute unit that are worth a second launch, work
#: for a unit that the columns should be cut into, and the least rows of a part.
MIN_UNIT_ELEMENTS = 8192
UNIT_COLUMNS = 1024
MIN_PART_ROWS, MAX_PARTS = 32, 1024

Dims = int | Sequence[int] | None


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """float32 for half types, the dtype itself otherwise."""
    return torch.float32 if dtype in HALF_TYPES else dtype


def identity(how: str, dtype: torch.dtype) -> float | int | bool:
    return {
        "sum": 0,
        "prod": 1,
        "max": lowest(dtype),
        "min": highest(dtype),
        "any": False,
        "all": True,
    }[how]


#: Reductions that choose among the elements.
_SELECTING = ("max", "min", "argmax", "argmin")


def reduce_dims(ctx: LoweringContext, x: Value, dims: Sequence[int], how: str) -> Value:
    """Reduce in the dtype of ``x``; the dimensions disappear. Empty ones give the identity."""
    if how in _SELECTING:  # one of the elements as eager has them: a comparison may look for it
        x = Value(x.size, x.dtype, rounded(x.body))
    kept = [d for d in range(x.ndim) if d not in dims]
    if any(same(x.size[d], 0) for d in range(x.ndim)):
        if how.startswith("arg"):
            raise CannotLower(f"{how} over no elements")
        return full([x.size[d] for d in kept], identity(how, x.dtype), x.dtype)
    if all(same(x.size[d], 1) for d in dims):
        squeezed = without(x, dims)
        return full(squeezed.size, 0, torch.int64) if how.startswith("arg") else squeezed
    if how.startswith("arg"):
        return ctx.reduce(x, dims, how, torch.int64)
    if how != "prod":
        once, repeated = without_broadcast(x, dims)
        count = prod([n for n, r in zip(x.size, repeated, strict=True) if r])
        if not same(count, 1):
            result = reduce_dims(ctx, once, dims, how)
            return _times(result, count) if how == "sum" else result
    split = _split(ctx, x, dims, how)
    if split is not None:
        return split
    return ctx.reduce(x, dims, how, x.dtype)


def _times(x: Value, count: Size) -> Value:
    return Value(x.size, x.dtype, op("mul", x.body, size_expr(count, x.dtype)))


def without(x: Value, dims: Sequence[int]) -> Value:
    """Drop dimensions of extent 1."""
    kept = [d for d in range(x.ndim) if d not in dims]
    index: list[sympy.Expr] = [sympy.Integer(0)] * x.ndim
    for v, d in zip(loop_vars(len(kept)), kept, strict=True):
        index[d] = v
    return reindex(x, [x.size[d] for d in kept], index)


def _split(ctx: LoweringContext, x: Value, dims: Sequence[int], how: str) -> Value | None:
    """Two stages for few outputs of many elements each, or None where one stage is right."""
    if not all(map(is_static, x.size)):
        return None
    elements = math.prod(int(x.size[d]) for d in dims)
    outputs = math.prod(int(s) for d, s in enumerate(x.size) if d not in dims)
    order = ctx.preferred_order(x)
    inner = next((d for d in reversed(order) if not same(x.size[d], 1)), None)
    columns = inner is not None and inner not in dims
    if columns and ctx.device.profile == "simt":
        parts = _column_parts(ctx, elements, outputs)
        return _split_columns(ctx, x, dims, order, how, parts) if parts else None
    few = elements > MAX_SERIAL_ELEMENTS and outputs < 8 * ctx.device.compute_units
    partials = PARTIALS if few else 0
    if not few and columns:
        partials = _blocks_of_rows(ctx, x, elements, outputs)
    if not partials:
        return None
    # Keep one reduced dimension for the second stage: the outermost in memory among those that
    # give enough partial results, so that the first stage reads long contiguous runs.
    order = tuple(d for d in order if d in dims)
    for d in order:
        if 16 <= int(x.size[d]) <= 16 * PARTIALS and elements >= MIN_BLOCK_ROWS * int(x.size[d]):
            first = ctx.reduce(x, [e for e in dims if e != d], how, x.dtype)
            position = sum(1 for e in range(d) if e not in dims)
            return ctx.reduce(first, [position], how, x.dtype)
    largest = max(order, key=lambda d: int(x.size[d]))
    return _split_dim(ctx, x, dims, largest, how, partials)


def _blocks_of_rows(ctx: LoweringContext, x: Value, elements: int, outputs: int) -> int:
    """How many blocks of rows to sum apart where the results are columns of a large matrix.

    A vector of columns would be read alone from every row, each of them in another page: over a
    block of rows all of its columns are read while it is in cache. 0: leave it whole.
    """
    row = outputs * x.dtype.itemsize
    cache = ctx.device.caches.l2
    length = max(MIN_BLOCK_ROWS, int(BLOCK_SHARE * cache) // row)
    if row * elements <= cache or elements < 4 * length:
        return 0
    return elements // length


def _column_parts(ctx: LoweringContext, elements: int, outputs: int) -> int:
    """How many parts of the rows to sum apart so that columns fill a GPU; 0: leave them whole."""
    units = ctx.device.compute_units
    if elements * outputs < MIN_UNIT_ELEMENTS * units:
        return 0
    parts = min(UNIT_COLUMNS * units // outputs, elements // MIN_PART_ROWS, MAX_PARTS)
    return parts if parts >= 4 else 0


def _split_columns(
    ctx: LoweringContext,
    x: Value,
    dims: Sequence[int],
    order: Sequence[int],
    how: str,
    parts: int,
) -> Value | None:
    """Two stages with about ``parts`` partial results: of outer dimensions, or of a cut one."""
    reduced = [d for d in order if d in dims]
    best: tuple[float, list[int]] | None = None
    count = 1
    for k, d in enumerate(reduced[:-1]):
        count *= int(x.size[d])
        off = abs(math.log2(count / parts))
        if off <= 2 and (best is None or off < best[0]):
            best = off, reduced[: k + 1]
    if best is None:
        largest = max(reduced, key=lambda d: int(x.size[d]))
        return _split_dim(ctx, x, dims, largest, how, parts)
    second = best[1]
    first = ctx.reduce(x, [d for d in dims if d not in second], how, x.dtype)
    left = [d for d in range(x.ndim) if d in second or d not in dims]
    return ctx.reduce(first, [left.index(d) for d in second], how, x.dtype)


def _split_dim(
    ctx: LoweringContext, x: Value, dims: Sequence[int], d: int, how: str, partials: int
) -> Value | None:
    """Cut dimension ``d`` into chunks: ``[.., n, ..]`` becomes ``[.., chunks, length, ..]``."""
    n = int(x.size[d])
    if n < 2 * partials:
        return None
    candidates = [c for c in range(max(partials // 4, 2), partials * 4) if n % c == 0]
    chunks = min(candidates, key=lambda c: abs(c - partials), default=partials)
    length = -(-n // chunks)
    variables = loop_vars(x.ndim + 1)
    position = variables[d] * length + variables[d + 1]
    size = (*x.size[:d], chunks, length, *x.size[d + 1 :])
    index = [*variables[:d], position, *variables[d + 2 :]]
    body = reindex(x, size, index)
    guard = in_bounds(position, 0, n, body.ranges)
    if guard is not None:
        other = const(identity(how, x.dtype), x.dtype)
        body = Value(size, x.dtype, masked(guard, body.body, other))
    inner = [e + 1 if e > d else e for e in dims if e != d] + [d + 1]
    first = ctx.reduce(body, inner, how, x.dtype)
    return ctx.reduce(first, [sum(1 for e in range(d) if e not in dims)], how, x.dtype)


def keep_dims(x: Value, dims: Sequence[int], size: Sequence[Size], keepdim: bool) -> Value:
    """Put reduced dimensions back with extent 1, where asked for."""
    if not keepdim:
        return x
    variables = loop_vars(len(size))
    index = [v for d, v in enumerate(variables) if d not in dims]
    return reindex(x, [1 if d in dims else s for d, s in enumerate(size)], index)


def unary(name: str, x: Value) -> Value:
    return Value(x.size, x.dtype, op(name, x.body))


def binary(name: str, a: Value, b: Value) -> Value:
    """Elementwise on operands of one dtype; ``b`` broadcasts to ``a``."""
    return Value(a.size, a.dtype, op(name, a.body, expand(b, a.size).body))


# -- sums ----------------------------------------------------------------------------------


def summed(
    ctx: LoweringContext, x: Value, dim: Dims, keepdim: bool, dtype: torch.dtype | None, how: str
) -> Value:
    """Sum or product with eager's result dtype."""
    dims = normalize_dims(dim, x.ndim)
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    source = cast_value(cast_value(x, dtype), accumulation_dtype(dtype))
    if dtype is torch.bool:  # adding truth values is "or", multiplying them is "and"
        how = {"sum": "any", "prod": "all"}[how]
    result = keep_dims(reduce_dims(ctx, source, dims, how), dims, x.size, keepdim)
    return cast_value(result, dtype)


@register(aten.sum.default)
def lower_sum_all(ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return summed(ctx, x, None, False, dtype, "sum")


@register(aten.sum.dim_IntList)
def lower_sum(
    ctx: LoweringContext,
    x: Value,
    dim: Dims,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    return summed(ctx, x, dim, keepdim, dtype, "sum")


@register(aten.prod.default)
def lower_prod_all(ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return summed(ctx, x, None, False, dtype, "prod")


@register(aten.prod.dim_int)
def lower_prod(
    ctx: LoweringContext,
    x: Value,
    dim: int,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    return summed(ctx, x, dim, keepdim, dtype, "prod")


def mean_of(ctx: LoweringContext, x: Value, dims: Sequence[int]) -> Value:
    """Mean over ``dims`` (which disappear), in the dtype of ``x``; NaN over no elements."""
    count = size_expr(prod([x.size[d] for d in dims]), x.dtype)
    total = reduce_dims(ctx, x, dims, "sum")
    return Value(total.size, total.dtype, op("div", total.body, count))


@register(aten.mean.default)
def lower_mean_all(ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return lower_mean(ctx, x, None, dtype=dtype)


@register(aten.mean.dim)
def lower_mean(
    ctx: LoweringContext,
    x: Value,
    dim: Dims,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    dtype = x.dtype if dtype is None else dtype
    dims = normalize_dims(dim, x.ndim)
    source = cast_value(cast_value(x, dtype), accumulation_dtype(dtype))
    return cast_value(keep_dims(mean_of(ctx, source, dims), dims, x.size, keepdim), dtype)


@register(aten.count_nonzero.default)
def lower_count_nonzero_all(ctx: LoweringContext, x: Value, dim: int | None = None) -> Value:
    return lower_count_nonzero(ctx, x, None if dim is None else [dim])


@register(aten.count_nonzero.dim_IntList)
def lower_count_nonzero(ctx: LoweringContext, x: Value, dim: Dims) -> Value:
    flags = cast_value(cast_value(x, torch.bool), torch.int64)
    return summed(ctx, flags, dim, False, torch.int64, "sum")


# -- truth ---------------------------------------------------------------------------------


def _is_empty(dim: Dims) -> bool:
    return isinstance(dim, Sequence) and len(dim) == 0


def _truth(ctx: LoweringContext, x: Value, dim: Dims, keepdim: bool, how: str) -> Value:
    # Unlike in sums, an empty list of dimensions reduces nothing.
    dims = [] if _is_empty(dim) else normalize_dims(dim, x.ndim)
    result = reduce_dims(ctx, cast_value(x, torch.bool), dims, how)
    result = keep_dims(result, dims, x.size, keepdim)
    # uint8 stays uint8, for compatibility with masks of that type; everything else gives bool.
    return cast_value(result, torch.uint8 if x.dtype is torch.uint8 else torch.bool)


@register(aten.any.default, aten.any.dim, aten.any.dims)
def lower_any(ctx: LoweringContext, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _truth(ctx, x, dim, keepdim, "any")


@register(aten.all.default, aten.all.dim, aten.all.dims)
def lower_all(ctx: LoweringContext, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _truth(ctx, x, dim, keepdim, "all")


# -- extrema -------------------------------------------------------------------------------


def extremum(ctx: LoweringContext, x: Value, dim: Dims, keepdim: bool, how: str) -> Value:
    """Largest or smallest element; NaN wins."""
    dims = normalize_dims(dim, x.ndim)
    if any(same(x.size[d], 0) for d in dims):
        raise CannotLower(f"{how} over no elements")
    if x.dtype is torch.bool:
        how = {"max": "any", "min": "all"}[how]
    return keep_dims(reduce_dims(ctx, x, dims, how), dims, x.size, keepdim)


@register(aten.amax.default)
def lower_amax(ctx: LoweringContext, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return extremum(ctx, x, dim, keepdim, "max")


@register(aten.amin.default)
def lower_amin(ctx: LoweringContext, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return extremum(ctx, x, dim, keepdim, "min")


@register(aten.max.default)
def lower_max_all(ctx: LoweringContext, x: Value) -> Value:
    return extremum(ctx, x, None, False, "max")


@register(aten.min.default)
def lower_min_all(ctx: LoweringContext, x: Value) -> Value:
    return extremum(ctx, x, None, False, "min")


def arg_extremum(ctx: LoweringContext, x: Value, dim: int | None, keepdim: bool, how: str) -> Value:
    """int64 position of the first extremum (NaN wins) along ``dim``, or in the flat tensor."""
    dims = list(range(x.ndim)) if dim is None or not x.ndim else [normalize_dim(dim, x.ndim)]
    if x.dtype is torch.bool:
        x = cast_value(x, torch.int32)
    return keep_dims(reduce_dims(ctx, x, dims, how), dims, x.size, keepdim)


@register(aten.argmax.default)
def lower_argmax(
    ctx: LoweringContext, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value:
    return arg_extremum(ctx, x, dim, keepdim, "argmax")


@register(aten.argmin.default)
def lower_argmin(
    ctx: LoweringContext, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value:
    return arg_extremum(ctx, x, dim, keepdim, "argmin")


def _with_position(
    ctx: LoweringContext, x: Value, dim: int, keepdim: bool, how: str
) -> tuple[Value, Value]:
    x = reused(ctx, x)
    dims = [normalize_dim(dim, x.ndim)]
    values = extremum(ctx, x, dims, keepdim, how)
    return values, arg_extremum(ctx, x, dims[0], keepdim, f"arg{how}")


@register(aten.max.dim)
def lower_max_dim(
    ctx: LoweringContext, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value, Value]:
    return _with_position(ctx, x, dim, keepdim, "max")


@register(aten.min.dim)
def lower_min_dim(
    ctx: LoweringContext, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value, Value]:
    return _with_position(ctx, x, dim, keepdim, "min")


@register(aten.aminmax.default)
def lower_aminmax(
    ctx: LoweringContext, x: Value, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    x = reused(ctx, x)
    low = extremum(ctx, x, dim, keepdim, "min")
    return low, extremum(ctx, x, dim, keepdim, "max")
