"""Writes at computed positions.

Points that may hit the same element run one after another in eager's order, so results are
deterministic; dimensions in which no two points can collide run in parallel. Indices out of range
are reported, as in :mod:`ocl_inductor.lowering.core.indirect_load`; their points update another
element.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, const, op, substitute
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, bind, require_index, users_index
from ocl_inductor.lowering.core.shapes import cast_value, full, highest, lowest, normalize_dim
from ocl_inductor.lowering.core.values import Value, expand, reshape
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

#: Names of reductions in scatter operators, and the update each stands for.
UPDATES = {
    "sum": "sum",
    "add": "sum",
    "prod": "prod",
    "multiply": "prod",
    "amax": "max",
    "amin": "min",
}


def scatter_points(
    ctx: LoweringContext,
    base: Value,
    size: Sequence[Size],
    coordinates: Sequence[Coordinate],
    body: Expr,
    colliding: Sequence[int],
    how: str,
) -> Value:
    """Update ``base`` at ``coordinates`` for each point of a space of ``size``.

    ``coordinates`` and ``body`` are over the space's variables; dimensions ``colliding`` of the
    space run in sequence.
    """
    if any(same(n, 0) for n in (*size, *base.size)):
        return base
    if base.dtype is torch.bool:  # as in eager, 1 + 1 is true
        how = {"sum": "max", "prod": "min"}.get(how, how)
    parallel = [d for d in range(len(size)) if d not in colliding]
    nest = parallel + list(colliding)
    renamed: dict[sympy.Symbol, sympy.Expr] = {
        loop_vars(len(size))[old]: loop_vars(len(size))[new] for new, old in enumerate(nest)
    }
    index, bound = bind(coordinates)
    return ctx.scatter(
        base,
        [i.xreplace(renamed) for i in index],
        tuple(substitute(b, renamed) for b in bound),
        substitute(body, renamed),
        [size[d] for d in parallel],
        [size[d] for d in colliding],
        how,
    )


# -- scatter along one dimension -----------------------------------------------------------


def scatter_along(
    ctx: LoweringContext, x: Value, dim: int, index: Value, source: Value, how: str
) -> Value:
    """``x[.., index[p], ..] = source[p]`` for every point ``p`` of ``index``."""
    if any(same(n, 0) for n in index.size):  # then its rank may differ from x's
        return x
    if x.ndim == 0:
        result = scatter_along(
            ctx, reshape(x, (1,)), 0, reshape(index, (1,)), reshape(source, (1,)), how
        )
        return reshape(result, ())
    if index.ndim == 0:
        index, source = reshape(index, (1,)), reshape(source, (1,))
    dim = normalize_dim(dim, x.ndim)
    coordinates: list[Coordinate] = list(loop_vars(index.ndim))
    coordinates[dim] = users_index(
        ctx, require_index(index).body, x.size[dim], index.ranges, dim, wrap=False
    )
    body = cast_value(source, x.dtype).body
    return scatter_points(ctx, x, index.size, coordinates, body, [dim], how)


def _constant_like(index: Value, number: float, dtype: torch.dtype) -> Value:
    if isinstance(number, sympy.Basic):
        raise CannotLower("scatter of a symbolic value")
    return full(index.size, number, dtype)


@register(aten.scatter.src)
def lower_scatter_src(ctx: LoweringContext, x: Value, dim: int, index: Value, src: Value) -> Value:
    return scatter_along(ctx, x, dim, index, src, "set")


@register(aten.scatter.value)
def lower_scatter_value(
    ctx: LoweringContext, x: Value, dim: int, index: Value, value: float
) -> Value:
    return scatter_along(ctx, x, dim, index, _constant_like(index, value, x.dtype), "set")


@register(aten.scatter.reduce)
def lower_scatter_src_reduce(
    ctx: LoweringContext, x: Value, dim: int, index: Value, src: Value, *, reduce: str
) -> Value:
    return scatter_along(ctx, x, dim, index, src, UPDATES[reduce])


@register(aten.scatter.value_reduce)
def lower_scatter_value_reduce(
    ctx: LoweringContext, x: Value, dim: int, index: Value, value: float, *, reduce: str
) -> Value:
    constant = _constant_like(index, value, x.dtype)
    return scatter_along(ctx, x, dim, index, constant, UPDATES[reduce])


@register(aten.scatter_add.default)
def lower_scatter_add(ctx: LoweringContext, x: Value, dim: int, index: Value, src: Value) -> Value:
    return scatter_along(ctx, x, dim, index, src, "sum")


def _reduction_identity(reduce: str, dtype: torch.dtype) -> float | int | bool:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    return lowest(dtype) if reduce == "amax" else highest(dtype)


def _excluding_self(ctx: LoweringContext, x: Value, dim: int, index: Value, reduce: str) -> Value:
    """``x`` with every element that will be written replaced by the reduction's identity."""
    neutral = full(index.size, _reduction_identity(reduce, x.dtype), x.dtype)
    return scatter_along(ctx, x, dim, index, neutral, "set")


@register(aten.scatter_reduce.two)
def lower_scatter_reduce(
    ctx: LoweringContext,
    x: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    if x.dtype is torch.bool:
        raise CannotLower("scatter_reduce of bool")
    base = x if include_self else _excluding_self(ctx, x, dim, index, reduce)
    if reduce != "mean":
        return scatter_along(ctx, base, dim, index, src, UPDATES[reduce])
    total = scatter_along(ctx, base, dim, index, src, "sum")
    # The divisor counts the element itself, or stays 1 where nothing was written.
    start = full(x.size, 1, x.dtype)
    if not include_self:
        start = _excluding_self(ctx, start, dim, index, reduce)
    count = scatter_along(ctx, start, dim, index, full(index.size, 1, x.dtype), "sum")
    how = "div" if x.dtype.is_floating_point else "floor_div"
    return Value(x.size, x.dtype, op(how, total.body, count.body))


# -- whole slices at indices of one dimension ----------------------------------------------


def slices_at(
    ctx: LoweringContext,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    how: str,
    *,
    wrap: bool = False,
) -> Value:
    """``x[.., index[k], ..] = source[.., k, ..]``; ``source`` broadcasts."""
    if x.ndim == 0:
        whole = slices_at(ctx, reshape(x, (1,)), 0, index, reshape(source, (1,)), how, wrap=wrap)
        return reshape(whole, ())
    dim = normalize_dim(dim, x.ndim)
    flat = index if index.ndim else reshape(index, (1,))
    size = (*x.size[:dim], flat.size[0], *x.size[dim + 1 :])
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    coordinates: list[Coordinate] = list(variables)
    place = require_index(flat).at([variables[dim]])
    coordinates[dim] = users_index(ctx, place, x.size[dim], ranges, dim, wrap=wrap)
    body = cast_value(expand(source, size), x.dtype).body
    return scatter_points(ctx, x, size, coordinates, body, [dim], how)


@register(aten.index_add.default)
def lower_index_add(
    ctx: LoweringContext, x: Value, dim: int, index: Value, source: Value, *, alpha: float = 1
) -> Value:
    if alpha != 1:
        scaled = op("mul", source.body, const(alpha, source.dtype))
        source = Value(source.size, source.dtype, scaled)
    return slices_at(ctx, x, dim, index, _as_slices(x, dim, source), "sum")


@register(aten.index_copy.default)
def lower_index_copy(
    ctx: LoweringContext, x: Value, dim: int, index: Value, source: Value
) -> Value:
    return slices_at(ctx, x, dim, index, _as_slices(x, dim, source), "set")


def _as_slices(x: Value, dim: int, source: Value) -> Value:
    """A source without the index dimension (allowed for one index) gets it.

    Raises:
        CannotLower: the source has slices of another shape, which eager refuses.
    """
    dim = normalize_dim(dim, x.ndim)
    if source.ndim == x.ndim:
        pairs = zip(source.size, x.size, strict=True)
        others = [p for d, p in enumerate(pairs) if d != dim and all(map(is_static, p))]
        if any(a != b for a, b in others):
            raise CannotLower(f"slices of size {list(source.size)} for {list(x.size)}")
        return source
    if x.ndim > 1:
        raise CannotLower(f"slices of {source.ndim} dimensions for {x.ndim}")
    return reshape(source, (*source.size[:dim], 1, *source.size[dim:]))


@register(aten.index_fill.int_Scalar)
def lower_index_fill(ctx: LoweringContext, x: Value, dim: int, index: Value, value: float) -> Value:
    if isinstance(value, sympy.Basic):
        raise CannotLower("index_fill with a symbolic value")
    filling = full((1,) * max(x.ndim, 1), value, x.dtype)
    return slices_at(ctx, x, dim, index, filling, "set", wrap=True)


@register(aten.index_fill.int_Tensor)
def lower_index_fill_tensor(
    ctx: LoweringContext, x: Value, dim: int, index: Value, value: Value
) -> Value:
    filling = expand(value, (1,) * max(x.ndim, 1))
    return slices_at(ctx, x, dim, index, filling, "set", wrap=True)


@register(aten.index_reduce.default)
def lower_index_reduce(
    ctx: LoweringContext,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """As scatter_reduce, for whole slices."""
    if x.dtype is torch.bool:
        raise CannotLower("index_reduce of bool")
    unit = (1,) * max(x.ndim, 1)

    def neutral(base: Value) -> Value:
        """``base`` with every slice that will be written replaced by the reduction's identity."""
        if include_self:
            return base
        number = full(unit, _reduction_identity(reduce, x.dtype), x.dtype)
        return slices_at(ctx, base, dim, index, number, "set")

    slices = _as_slices(x, dim, source)
    if reduce != "mean":
        return slices_at(ctx, neutral(x), dim, index, slices, UPDATES[reduce])
    total = slices_at(ctx, neutral(x), dim, index, slices, "sum")
    start = neutral(full(x.size, 1, x.dtype))
    count = slices_at(ctx, start, dim, index, full(unit, 1, x.dtype), "sum")
    # Where nothing was written, start is 1 already; a slice that was replaced has been counted.
    how = "div" if x.dtype.is_floating_point else "floor_div"
    return Value(x.size, x.dtype, op(how, total.body, count.body))


@register(aten.put.default)
def lower_put(
    ctx: LoweringContext, x: Value, index: Value, source: Value, accumulate: bool = False
) -> Value:
    """Elements of the flattened tensor; negative positions count from the end."""
    flat = reshape(x, (prod(x.size),))
    points = reshape(require_index(index), (prod(index.size),))
    body = reshape(source, (prod(source.size),)).body
    place = users_index(ctx, points.body, flat.size[0], points.ranges, None)
    how = "sum" if accumulate else "set"
    written = scatter_points(ctx, flat, points.size, [place], cast(body, x.dtype), [0], how)
    return reshape(written, x.size)
