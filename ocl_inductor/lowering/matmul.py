"""Matrix products: which kernel computes them and how the operands come to lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from ocl_inductor.ir.expr import const, indices, masked, op
from ocl_inductor.ir.index import Size, contiguous_strides, is_static, loop_vars, prod, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.few_rows import few_rows
from ocl_inductor.lowering.registry import CannotLower, register
from ocl_inductor.lowering.shapes import cast_value, full, in_bounds
from ocl_inductor.lowering.values import (
    ZERO,
    StridedView,
    Value,
    expand,
    permute,
    reindex,
    reshape,
    strided_view,
    transposed,
)
from ocl_inductor.templates.blocking import candidate_blockings, ceil_div, size_ceil_div
from ocl_inductor.templates.gemv import MAX_ROWS
from ocl_inductor.templates.simt_tiles import candidate_tiles

aten = torch.ops.aten

_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
#: Below this many multiplications a generic reduction beats a template with a packed operand.
_TINY_PRODUCT = 2048
#: A whose steps along K are longer than one element is packed, a tile to a run, where at least this
#: many panels of columns read it; else it is prefetched where it lies.
_MIN_PANELS = 8
#: Elements this many bytes apart fall into one set of the first-level cache, which holds about a
#: dozen lines: such an A is packed for two panels already.
_SET_BYTES = 4096
#: Bytes of a row that are packed at once, in as many panels as that takes.
_PACKED_RUN_BYTES = 256
#: B is read where it lies when it has unit stride along the columns and at most this many rows:
#: each row of a tile is another page.
_MAX_UNPACKED_ROWS = 64
#: A longer panel of B than this is cut, so that one part of it stays in a second-level cache.
_MAX_PANEL_BYTES = 1 << 20
_CHUNK_BYTES = 512 << 10
#: Fewer tiles of rows than this do not read a panel often enough.
_MIN_TILES_FOR_PARTS = 4


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type products of ``dtype`` accumulate in: half types compute in float32."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    return dtype


def accumulator(dtype: torch.dtype) -> str:
    return "double" if dtype is torch.float64 else "float"


def binary(name: str, a: Value, b: Value) -> Value:
    """Elementwise ``name`` of two values of one dtype, broadcast against each other."""
    ndim = max(a.ndim, b.ndim)
    sizes_a = (1,) * (ndim - a.ndim) + a.size
    sizes_b = (1,) * (ndim - b.ndim) + b.size
    size = tuple(y if same(x, 1) else x for x, y in zip(sizes_a, sizes_b, strict=True))
    return Value(size, a.dtype, op(name, expand(a, size).body, expand(b, size).body))


def scale(value: Value, factor: Any) -> Value:
    """``value * factor`` for a Python number; exact for 1."""
    if factor == 1:
        return value
    return Value(value.size, value.dtype, op("mul", value.body, const(factor, value.dtype)))


def _check_dtypes(*values: Value) -> torch.dtype:
    dtype = values[0].dtype
    if any(not isinstance(v, Value) for v in values):
        raise CannotLower("an operand lives on the host")
    if any(v.dtype != dtype for v in values):
        raise CannotLower(f"operands of different dtypes: {[str(v.dtype) for v in values]}")
    if dtype not in _FLOATING and dtype not in _INTEGERS:
        raise CannotLower(f"matrix product of {dtype}")
    return dtype


# -- operands in memory -------------------------------------------------------------------


def depends_on(value: Value, dims: Sequence[int]) -> bool:
    """Whether an element depends on the coordinates ``dims`` (broadcast ones do not count)."""
    variables = {loop_vars(value.ndim)[d] for d in dims if not same(value.size[d], 1)}
    return any(variables & index.free_symbols for index in indices(value.body))


def without_broadcast(value: Value, dims: Sequence[int]) -> tuple[Value, list[bool]]:
    """``value`` with extent 1 for those of ``dims`` that no element depends on; which they are."""
    free = [
        d in dims and (same(s, 1) or not depends_on(value, [d])) for d, s in enumerate(value.size)
    ]
    once = reindex(
        value,
        [1 if f else s for f, s in zip(free, value.size, strict=True)],
        [ZERO if f else v for f, v in zip(free, loop_vars(value.ndim), strict=True)],
    )
    return once, free


def _split_leading(value: Value) -> Value:
    """``value`` with dimension 0 split in two where that makes it a strided view.

    (batch*heads, s, d) made from a permuted (batch, s, heads, d) is such a value: no copy needed.
    Returns ``value`` itself where no split helps.
    """
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    if value.body.op != "load" or value.body.args or not is_static(value.size[0]):
        return value
    v0 = loop_vars(1)[0]
    total = int(value.size[0])
    found: set[int] = set()
    for atom in value.body.payload.index.atoms(FloorDiv, ModularIndexing):
        if atom.args[0] == v0 and isinstance(atom.args[1], sympy.Integer):
            divisor = atom.args[1] if isinstance(atom, FloorDiv) else atom.args[1] * atom.args[2]
            found |= {int(divisor), int(atom.args[1])}
    for inner in sorted(found):
        if inner <= 1 or inner >= total or total % inner:
            continue
        rest = loop_vars(value.ndim + 1)
        index = [rest[0] * inner + rest[1], *rest[2:]]
        split = reindex(value, (total // inner, inner, *value.size[1:]), index)
        if strided_view(split) is not None:
            return split
    return value


def realize_operand(
    ctx: LoweringContext, value: Value, dtype: torch.dtype
) -> tuple[Value, StridedView]:
    """``value`` in memory as ``dtype``, through strides where it already is."""
    value = ctx.realize(cast_value(value, dtype))
    view = strided_view(value)
    assert view is not None
    return value, view


def pack_panels(ctx: LoweringContext, b: Value, nr: int) -> Value:
    """(.., k, n) to memory as [..][panel][k][nr], columns past n zero."""
    *lead, k, n = b.size
    size = (*lead, size_ceil_div(n, nr), k, nr)
    variables = loop_vars(len(size))
    panel, row, lane = variables[-3:]
    column = panel * nr + lane
    packed = reindex(b, size, [*variables[:-3], row, column])
    inside = in_bounds(column, 0, n, dict(zip(variables, size, strict=True)))
    if inside is not None and not (is_static(n) and int(n) % nr == 0):
        packed = Value(
            packed.size, packed.dtype, masked(inside, packed.body, const(0, packed.dtype))
        )
    nd, panels, together = packed.ndim, size[-3], 1
    view = strided_view(b)
    if view is not None and same(view.stride[-1], 1) and is_static(panels):
        while together * nr * b.dtype.itemsize < _PACKED_RUN_BYTES:
            if int(panels) % (2 * together):
                break
            together *= 2
    if together == 1:
        return ctx.pointwise(packed, tuple(range(nd)))
    # Neighbouring panels row by row: each of the rows is another page.
    apart = reshape(packed, (*lead, int(panels) // together, together, k, nr))
    nest = (*range(nd - 2), nd - 1, nd - 2, nd)
    return reshape(ctx.pointwise(apart, tuple(range(nd + 1)), nest), size)


# -- the product --------------------------------------------------------------------------


def matmul(
    ctx: LoweringContext, a: Value, b: Value, out_order: tuple[int, ...] | None = None
) -> Value:
    """(\\*batch, m, k) x (\\*batch, k, n) to (\\*batch, m, n), batch dimensions equal (or 1).

    Floating operands give their compute dtype (float32 for half types: the caller converts after
    its epilogue); integers their own dtype, wrapping. ``out_order`` is the memory order wished for
    (\\*batch, m), outermost first.
    """
    dtype = _check_dtypes(a, b)
    batch = tuple(y if same(x, 1) else x for x, y in zip(a.size[:-2], b.size[:-2], strict=True))
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    out = compute_dtype(dtype)
    if any(same(s, 0) for s in (*batch, m, n, k)):
        return full((*batch, m, n), 0, out)
    a, b = expand(a, (*batch, m, k)), expand(b, (*batch, k, n))
    work = ctx.hint(prod((*batch, m, n, k)))
    narrow = same(n, 1) or same(m, 1)
    if dtype in _INTEGERS or work <= _TINY_PRODUCT:
        return _product_by_reduction(ctx, a, b, out)
    few = few_rows(ctx, a, b, out)
    if few is None and is_static(n) and int(n) <= MAX_ROWS:
        columns = few_rows(ctx, transposed(b), transposed(a), out)
        few = None if columns is None else transposed(columns)
    if few is not None:
        return few
    if narrow:
        return _product_by_reduction(ctx, a, b, out)
    if batch and not depends_on(b, range(len(batch))):
        flat = _flatten_rows(ctx, a, out)
        if flat is not None:
            rows = prod((*batch, m))
            one = reindex(b, (k, n), [ZERO] * len(batch) + list(loop_vars(2)))
            return reshape(matmul(ctx, flat, one), (*batch, m, n)) if rows else flat
    return _product_by_template(ctx, a, b, out, out_order or tuple(range(len(batch) + 1)))


def _flatten_rows(ctx: LoweringContext, a: Value, dtype: torch.dtype) -> Value | None:
    """(\\*batch, m, k) as (batch*m, k) when that costs no copy beyond the one that it needs."""
    flat = reshape(a, (prod(a.size[:-1]), a.size[-1]))
    if strided_view(a) is not None and a.dtype == dtype and strided_view(flat) is None:
        return None
    return flat


def _product_by_reduction(ctx: LoweringContext, a: Value, b: Value, out: torch.dtype) -> Value:
    """Sum of a broadcast product; K is the innermost dimension."""
    a, b = cast_value(a, out), cast_value(b, out)
    nb = a.ndim - 2
    size = (*a.size[:-1], b.size[-1], a.size[-1])
    variables = loop_vars(nb + 3)
    lead, (i, j, k) = list(variables[:nb]), variables[nb:]
    left = reindex(a, size, [*lead, i, k])
    right = reindex(b, size, [*lead, k, j])
    return ctx.reduce(Value(size, out, op("mul", left.body, right.body)), [nb + 2], "sum")


def _product_by_template(
    ctx: LoweringContext, a: Value, b: Value, out: torch.dtype, out_order: tuple[int, ...]
) -> Value:
    out_batch = a.size[:-2]
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    if len(out_batch) == 1:
        split_a, split_b = _split_leading(a), _split_leading(b)
        if split_a.ndim > a.ndim or split_b.ndim > b.ndim:
            a, b = _same_split(a, b, split_a, split_b)
    a, a_view = realize_operand(ctx, a, out)
    batch = a.size[:-2]
    nb = len(batch)
    params: dict[str, Any] = {
        "m": m, "n": n, "k": k,
        "batch": batch,
        "out_batch": out_batch,
        "out_order": out_order,
        "a_layout": "strided",
        "a_offset": a_view.offset,
        "a_strides": a_view.stride,
        "acc": accumulator(out),
        "m_hint": ctx.hint(m),
        "n_hint": ctx.hint(n),
    }  # fmt: skip
    size, order = (*out_batch, m, n), (*out_order, len(out_batch) + 1)
    if ctx.device.profile == "simt":
        b, b_view = realize_operand(ctx, b, out)
        params |= {"b_layout": "strided", "b_strides": b_view.stride, "b_offset": b_view.offset}
        tiles = candidate_tiles(ctx.device, params["acc"], params["m_hint"], params["n_hint"])
        params = ctx.tuned("gemm", params, [t.params() for t in tiles])
        return ctx.template("gemm", out, size, order, [a, b], **params)
    batches = ctx.hint(prod(batch)) if batch else 1
    b_bytes = ctx.hint(prod((k, n))) * out.itemsize
    blockings = candidate_blockings(
        ctx.device, params["acc"], params["m_hint"], params["n_hint"], batches, b_bytes
    )
    # Batch dimensions that share an operand pack it once.
    once_a, shared_a = without_broadcast(a, range(nb))
    once_b, shared_b = without_broadcast(cast_value(b, out), range(nb))
    pack_a = _worth_packing(ctx, a_view, out, ctx.hint(n) // blockings[0].nr)
    if pack_a:
        params |= {"a_layout": "panels", "a_offset": 0, "a_strides": _any_strides(shared_a[:nb])}
    lying = _rows_in_place(ctx, cast_value(b, out), blockings[0].nr)
    if lying is not None:
        params |= {"b_layout": "rows", "b_strides": lying.stride[:-1], "b_offset": lying.offset}
        blockings = tuple(x for x in blockings if int(n) % x.nr == 0)
    else:
        params |= {"b_layout": "panels", "b_strides": _any_strides(shared_b[:nb]), "b_offset": 0}
    params = ctx.tuned("gemm", params, [x.params() for x in blockings])
    if pack_a:
        a = pack_panels(ctx, transposed(once_a), params["mr"])
        params["a_strides"] = _batch_strides(a, shared_a[:nb])
    if lying is None:
        b = pack_panels(ctx, once_b, params["nv"] * params["lanes"])
        params["b_strides"] = _batch_strides(b, shared_b[:nb])
    chunk = _chunk_of_sum(ctx, params, out)
    if chunk:
        return _sum_of_parts(ctx, params, chunk, out, [a, b])
    return ctx.template("gemm", out, size, order, [a, b], **params)


def _chunk_of_sum(ctx: LoweringContext, params: dict[str, Any], dtype: torch.dtype) -> int:
    """Terms of a partial sum for such a product; 0: the sum stays whole.

    Each tile of rows reads a panel of B once: it should come from a cache nearby.
    """
    k, row = ctx.hint(params["k"]), params["nv"] * params["lanes"] * dtype.itemsize
    if k * row <= _MAX_PANEL_BYTES or params["m_hint"] < _MIN_TILES_FOR_PARTS * params["mr"]:
        return 0
    parts = ceil_div(k * row, _CHUNK_BYTES)
    return ceil_div(k, parts)


def _sum_of_parts(
    ctx: LoweringContext, params: dict[str, Any], chunk: int, dtype: torch.dtype, ab: list[Value]
) -> Value:
    """The product by ``params`` as partial sums of ``chunk`` terms, which are then added up."""
    nb, parts = len(params["batch"]), size_ceil_div(params["k"], chunk)
    row = params["mr"] if params["a_layout"] == "panels" else params["a_strides"][nb + 1]
    column = params["nv"] * params["lanes"]
    if params["b_layout"] != "panels":
        column = params["b_strides"][nb]
    out_batch = params["out_batch"]
    size = (parts, *out_batch, params["m"], params["n"])
    # The parts of one row are neighbours.
    order = (*(d + 1 for d in params["out_order"]), 0)
    params |= {
        "k_chunk": chunk,
        "batch": (parts, *params["batch"]),
        "out_batch": (parts, *out_batch),
        "out_order": order,
        "a_strides": (chunk * row, *params["a_strides"]),
        "b_strides": (chunk * column, *params["b_strides"]),
    }
    found = ctx.template("gemm", dtype, size, (*order, len(size) - 1), ab, **params)
    return ctx.reduce(found, [0], "sum")


def _worth_packing(ctx: LoweringContext, a: StridedView, dtype: torch.dtype, panels: int) -> bool:
    """Whether A is packed, which ``panels`` of columns read."""
    step = a.stride[-1]
    if same(step, 0) or same(step, 1) or ctx.hint(a.size[-1]) <= _MAX_UNPACKED_ROWS:
        return False
    few = 2 if ctx.hint(step) * dtype.itemsize % _SET_BYTES == 0 else _MIN_PANELS
    return panels >= few


def _any_strides(shared: Sequence[bool]) -> tuple[int, ...]:
    """Batch strides of an operand that is not packed yet: 0 where batches share it."""
    return tuple(0 if s else 1 for s in shared)


def _batch_strides(packed: Value, shared: Sequence[bool]) -> tuple[Size, ...]:
    strides = contiguous_strides(packed.size)
    return tuple(0 if s else stride for s, stride in zip(shared, strides, strict=False))


def _same_split(a: Value, b: Value, split_a: Value, split_b: Value) -> tuple[Value, Value]:
    """Both operands with the batch dimension split alike, if they agree or one is easy."""
    leader = split_a if split_a.ndim > a.ndim else split_b
    outer, inner = leader.size[:2]
    result = []
    for whole, split in ((a, split_a), (b, split_b)):
        if split.ndim > whole.ndim and split.size[1] == inner:
            result.append(split)
            continue
        variables = loop_vars(whole.ndim + 1)
        index = [variables[0] * inner + variables[1], *variables[2:]]
        result.append(reindex(whole, (outer, inner, *whole.size[1:]), index))
    return result[0], result[1]


def _rows_in_place(ctx: LoweringContext, b: Value, nr: int) -> StridedView | None:
    """B read where it lies: unit stride along whole panels of columns and few rows."""
    view = strided_view(b)
    if view is None or not same(view.stride[-1], 1) or ctx.hint(b.size[-2]) > _MAX_UNPACKED_ROWS:
        return None
    if not is_static(b.size[-1]) or int(b.size[-1]) % nr:
        return None
    return view


# -- operators ----------------------------------------------------------------------------


def _number(x: Any) -> bool:
    return isinstance(x, (int, float))


def _with_addend(product: Value, addend: Value, beta: Any, alpha: Any, dtype: torch.dtype) -> Value:
    """``beta * addend + alpha * product`` in the compute dtype, then in ``dtype``.

    By PyTorch's rule nothing of ``addend``, not even NaN, gets through where beta is 0.
    """
    if not _number(beta) or not _number(alpha):
        raise CannotLower("beta or alpha is not a number")
    result = scale(product, alpha)
    if beta != 0:
        result = binary("add", result, scale(cast_value(addend, product.dtype), beta))
    return cast_value(result, dtype)


@register(aten.mm.default, aten.bmm.default)
def lower_mm(ctx: LoweringContext, a: Value, b: Value) -> Value:
    return cast_value(matmul(ctx, a, b), a.dtype)


@register(aten.addmm.default, aten.baddbmm.default)
def lower_addmm(
    ctx: LoweringContext, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    _check_dtypes(a, b, bias)
    product = matmul(ctx, a, b)
    return _with_addend(product, expand(bias, product.size), beta, alpha, a.dtype)


@register(aten.addbmm.default)
def lower_addbmm(
    ctx: LoweringContext, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    """The sum over the batch is one product with batch and k merged."""
    _check_dtypes(a, b, bias)
    batch, m, k = a.size
    left = reshape(permute(a, (1, 0, 2)), (m, prod((batch, k))))
    product = matmul(ctx, left, reshape(b, (prod((batch, k)), b.size[2])))
    return _with_addend(product, expand(bias, product.size), beta, alpha, a.dtype)


def matvec(ctx: LoweringContext, a: Value, x: Value) -> Value:
    column = reshape(x, (x.size[0], 1))
    return reshape(matmul(ctx, a, column), (a.size[0],))


@register(aten.mv.default)
def lower_mv(ctx: LoweringContext, a: Value, x: Value) -> Value:
    _check_dtypes(a, x)
    return cast_value(matvec(ctx, a, x), a.dtype)


@register(aten.addmv.default)
def lower_addmv(
    ctx: LoweringContext, bias: Value, a: Value, x: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    _check_dtypes(a, x, bias)
    product = matvec(ctx, a, x)
    return _with_addend(product, expand(bias, product.size), beta, alpha, a.dtype)


@register(aten.dot.default, aten.vdot.default)
def lower_dot(ctx: LoweringContext, a: Value, b: Value) -> Value:
    dtype = _check_dtypes(a, b)
    product = matmul(ctx, reshape(a, (1, a.size[0])), reshape(b, (b.size[0], 1)))
    return cast_value(reshape(product, ()), dtype)


@register(aten.linear.default)
def lower_linear(ctx: LoweringContext, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """``x (.., k)`` times ``weight (n, k)`` transposed; weight may be a vector (k)."""
    dtype = _check_dtypes(x, weight) if bias is None else _check_dtypes(x, weight, bias)
    vector = weight.ndim == 1
    if vector:
        weight = reshape(weight, (1, weight.size[0]))
    lead = x.size[:-1]
    rows = reshape(x, (prod(lead), x.size[-1]))
    product = matmul(ctx, rows, permute(weight, (1, 0)))
    product = reshape(product, lead if vector else (*lead, weight.size[0]))
    if bias is not None:
        product = binary("add", product, cast_value(bias, product.dtype))
    return cast_value(product, dtype)
