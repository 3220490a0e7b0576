"""Operands of matrix products in memory: views where they lie, and packed panels."""

from __future__ import annotations

import sympy
import torch

from ocl_inductor.ir.expr import const, masked
from ocl_inductor.ir.index import is_static, loop_vars, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.shapes import cast_value, in_bounds
from ocl_inductor.lowering.values import StridedView, Value, reindex, reshape, strided_view
from ocl_inductor.templates.blocking import size_ceil_div

#: Bytes of a row that are packed at once, in as many panels as that takes.
_PACKED_RUN_BYTES = 256


def accumulator(dtype: torch.dtype) -> str:
    return "double" if dtype is torch.float64 else "float"


def split_leading(value: Value) -> Value:
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


def same_split(a: Value, b: Value, split_a: Value, split_b: Value) -> tuple[Value, Value]:
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
