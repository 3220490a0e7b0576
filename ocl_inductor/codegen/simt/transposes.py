"""Pointwise kernels of a GPU whose operands have another memory order than their results.

Where adjacent results need strided elements of an operand, a work-group reads a square of it along
its contiguous dimension into local memory, and computes the points in the results' order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import Lanes
from ocl_inductor.codegen.simt.loops import UNROLL, SimtKernel
from ocl_inductor.codegen.statements.emitted import Text
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.tree.nodes import (
    GROUP_ID,
    LOCAL_ID,
    Array,
    Barrier,
    BlockStatement,
    For,
    LoopBound,
    all_below,
    variable,
)
from ocl_inductor.codegen.work import ceil_div
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.index import coefficients, is_static, prod
from ocl_inductor.schedule.groups import LoopGroup

#: Points along each side of a square; row length in local memory, padded to avoid bank conflicts.
SIDE, ROW = 32, 33
MIN_ITEMS, MAX_ITEMS = 64, 256
MAX_TILES = 4
#: Fewer points fit into the cache in any order.
MIN_POINTS = 1 << 14


@dataclass(frozen=True, slots=True)
class Transpose:
    """The dimension along which ``loads`` are contiguous."""

    dense: sympy.Symbol
    loads: tuple[Expr, ...]


def find_transpose(group: LoopGroup, device: DeviceInfo, in_place: bool) -> Transpose | None:
    """The loads to make through local memory, if any."""
    outer = group.outer_vars
    if group.inner or in_place or len(outer) < 2 or not all(map(is_static, group.outer)):
        return None
    if any(m.kind != "pointwise" or m.store_indirect for m in group.members):
        return None
    if int(prod(list(group.outer))) < MIN_POINTS or int(group.outer[-1]) < SIDE:
        return None
    if device.max_work_group_size < MIN_ITEMS:
        return None
    by_dimension: dict[sympy.Symbol, dict[Expr, None]] = {}
    for e in _certain_loads(group):
        affine = coefficients(e.payload.index, outer)
        if affine is None or affine[1].free_symbols & set(outer):
            continue
        if affine[0].get(outer[-1], 0) in (0, 1):
            continue
        for v in outer[:-1]:
            if affine[0].get(v, 0) == 1 and int(group.var_ranges[v]) >= SIDE:
                by_dimension.setdefault(v, {})[e] = None
    if not by_dimension:
        return None
    dense, loads = max(by_dimension.items(), key=lambda item: len(item[1]))
    return Transpose(dense, tuple(loads)[:MAX_TILES])


def _certain_loads(group: LoopGroup) -> Iterator[Expr]:
    """Direct, unconditional loads of other kernels' results."""
    own = {m.buffer.name for m in group.members}
    seen: set[Expr] = set()
    stack = [m.body for m in group.members]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.op == "load" and not e.args and e.payload.buffer not in own:
            yield e
        stack += e.args[:1] if e.op == "masked" else e.args


def transposed(kernel: SimtKernel, found: Transpose) -> KernelSource:
    """A work-group for each square of points: the dense dimension and the last one."""
    a, b = found.dense, kernel.outer_vars[-1]
    others = [v for v in kernel.outer_vars if v not in (a, b)]
    size = kernel.size_of
    squares = ceil_div(size[a], SIDE), ceil_div(size[b], SIDE)
    items = min(MAX_ITEMS, 1 << (kernel.device.max_work_group_size.bit_length() - 1))
    rows = items // SIDE
    writer, index = kernel.emitter(Lanes(None, 1, False), frozenset()), kernel.index
    tiles = [f"tile{n}" for n in range(len(found.loads))]
    for tile, e in zip(tiles, found.loads, strict=True):
        writer.add(Array(register_type(e.dtype, 1), tile, (SIDE, ROW), "__local"))
    lid, group = variable("lid"), variable("group")
    writer.let("int", "lid", "get_local_id(0)", LOCAL_ID)
    writer.let("int", "across", f"lid % {SIDE}", ModularIndexing(lid, 1, SIDE))
    writer.let("int", "down", f"lid / {SIDE}", FloorDiv(lid, SIDE))
    writer.let(index, "group", "get_group_id(0)", GROUP_ID)
    across, down = (kernel.text(n) for n in reversed(squares))
    value = ModularIndexing(group, 1, squares[1])
    writer.let(index, f"first_{b}", f"group % ({across}) * {SIDE}", value * SIDE)
    square, value = f"group / ({across})", FloorDiv(group, squares[1])
    if others:
        writer.let(index, "square", square, value)
        value = variable("square")
        writer.let(index, "point", f"square / ({down})", FloorDiv(value, squares[0]))
        square, value = f"square % ({down})", ModularIndexing(value, 1, squares[0])
    writer.let(index, f"first_{a}", f"{square} * {SIDE}", value * SIDE)
    whole = int(size[a]) % SIDE == 0 and int(size[b]) % SIDE == 0
    within = all_below(*((str(v), kernel.bound(size[v])) for v in (a, b)))
    with writer.inside(BlockStatement(()), frozenset(others)):
        kernel.coordinates(writer, "point", others)
        # The operands' order, then the results'.
        for quick, slow, fills in ((a, b, True), (b, a, False)):
            loop = For("int", "k", LoopBound.of(0), LoopBound.of(SIDE), step=rows, pragma=UNROLL)
            with writer.inside(loop):
                _place(writer, index, quick, "across")
                _place(writer, index, slow, "down", "k")
                with writer.inside(BlockStatement(()) if whole else within, frozenset([a, b])):
                    if fills:
                        for tile, e in zip(tiles, found.loads, strict=True):
                            writer.assign(f"{tile}[down + k][across]", writer.emit(e).text)
                    else:
                        _take(writer, tiles, found.loads)
                        kernel.outer_point_levels(writer)
            if fills:
                writer.add(Barrier())
    groups = prod((*squares, *(size[v] for v in others)))
    return kernel.kernel(writer.scopes[0].statements, (prod((groups, items)),), (items,))


def _place(writer: Emitter, kind: str, v: sympy.Symbol, *further: str) -> None:
    """Declare a coordinate: that of the square's first point, and what is ``further``."""
    names = (f"first_{v}", *further)
    value = sympy.Add(*(variable(name) for name in names))
    writer.let(kind, str(v), " + ".join(names), value)


def _take(writer: Emitter, tiles: list[str], loads: tuple[Expr, ...]) -> None:
    for tile, e in zip(tiles, loads, strict=True):
        name = writer.fresh("x")
        writer.let(register_type(e.dtype, 1), name, f"{tile}[across][down + k]")
        writer.scopes[-1].known[e] = Text(name, False)
