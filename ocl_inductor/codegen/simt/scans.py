"""Scans of a row by a work-group of a GPU.

The group processes the row in tiles, of a vector or an element for each work-item. An item scans
its own; the items' totals are scanned in local memory (W. D. Hillis and G. L. Steele, "Data
parallel algorithms", Communications of the ACM 29 (1986)), each step from one array into another,
so that it takes one barrier; the prefix of the earlier tiles is carried along.
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import sympy

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import Lanes
from ocl_inductor.codegen.printers.conversions import literal
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.simt.groups import USUAL_GROUP, WIDTH, by_columns
from ocl_inductor.codegen.simt.loops import SimtKernel
from ocl_inductor.codegen.simt.points import fits_vector, quotient
from ocl_inductor.codegen.statements.accumulators import combine_text, identity
from ocl_inductor.codegen.statements.emitted import Text
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.statements.stores import LANES
from ocl_inductor.codegen.tree.nodes import (
    GROUP_ID,
    LOCAL_ID,
    Array,
    Assign,
    Barrier,
    BlockStatement,
    Doubling,
    For,
    If,
    IndexComparison,
    Let,
    LoopBound,
    Variable,
    all_below,
    variable,
)
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.index import is_static, prod
from ocl_inductor.schedule.groups import LoopGroup, Member

#: Shortest row that a group scans; shorter ones are scanned by one work-item.
MIN_ROW = 64
MIN_GROUP = 32


def scans_rows(group: LoopGroup) -> bool:
    """Whether the group is a scan along contiguous memory, long enough for a work-group."""
    if [m.kind for m in group.members] != ["scan"] or by_columns(group):
        return False
    (length,) = group.inner
    return not is_static(length) or int(length) >= MIN_ROW


def scan_rows(kernel: SimtKernel) -> KernelSource:
    """The kernel of a group for which :func:`scans_rows` holds: a work-group for each row."""
    (m,) = kernel.group.members
    (v,), (length,) = kernel.inner_vars, kernel.group.inner
    width = WIDTH if fits_vector(kernel.group, v, length, WIDTH) else 1
    steps = quotient(length, width)
    items = _items(steps, kernel.device)
    writer = kernel.emitter(Lanes(v if width > 1 else None, width, True), frozenset())
    kind = register_type(m.body.dtype, 1)
    writer.add(Array(kind, "totals", (2 * items,), "__local"))
    writer.let(kernel.index, "point", "get_group_id(0)", GROUP_ID)
    writer.let("int", "lid", "get_local_id(0)", LOCAL_ID)
    writer.add(Variable("int", "here", "0"))
    with writer.inside(BlockStatement(()), frozenset(kernel.outer_vars)):
        kernel.coordinates(writer, "point", kernel.outer_vars)
        writer.add(Variable(kind, "carry", kernel.beginning(writer, m, 1)))
        end = kernel.bound(steps)
        loop = For(kernel.index, "first", LoopBound.of(0), end, step=items)
        with writer.inside(loop, frozenset([v])):
            step = variable("first") + variable("lid")
            writer.let(kernel.index, "step", "first + lid", step)
            kernel.coordinates(writer, "step", [v], width)
            exact = is_static(steps) and int(steps) % items == 0
            _tile(kernel, writer, m, items, None if exact else all_below(("step", end)))
    rows = prod(list(kernel.group.outer))
    return kernel.kernel(writer.scopes[0].statements, (prod((rows, items)),), (items,))


def _items(steps: object, device: DeviceInfo) -> int:
    items = min(USUAL_GROUP, device.max_work_group_size)
    items = 1 << (items.bit_length() - 1)
    if isinstance(steps, (int, sympy.Integer)):
        while items > MIN_GROUP and int(steps) <= items // 2:
            items //= 2
    return items


def _tile(kernel: SimtKernel, writer: Emitter, m: Member, items: int, guard: If | None) -> None:
    """One iteration of the loop; ``guard``: the branch for elements within the row."""
    width, dtype = writer.width, m.body.dtype
    kind, wide = register_type(dtype, 1), register_type(dtype, width)

    def combine(a: str, b: str, lanes: int = 1) -> str:
        return combine_text(m.how, EmitTarget(lanes, kernel.device), dtype, a, b)

    writer.add(Variable(wide, "own", literal(identity(m.how, dtype), dtype, width)))
    with writer.inside(guard, guarded=True) if guard else nullcontext():
        value = writer.vectorised(m.body) if width > 1 else writer.emit(m.body).text
        writer.assign("own", value)
    for before, after in itertools.pairwise(LANES[:width]):
        writer.assign(f"own.s{after}", combine(f"own.s{before}", f"own.s{after}"))
    last = f"own.s{LANES[width - 1]}" if width > 1 else "own"
    other_half = Assign("here", f"{items} - here"), Assign("totals[here + lid]", "total"), Barrier()
    lid, reach = variable("lid"), variable("reach")
    reached = If(
        "lid >= reach",
        (
            Let(kind, "below", "totals[here + lid - reach]"),
            Assign("total", combine("below", "total")),
        ),
        (IndexComparison(lid + 1, ">", reach),),
    )
    earlier_items = If(
        "lid > 0",
        (
            Let(kind, "below", "totals[here + lid - 1]"),
            Assign("before", combine("before", "below")),
        ),
        (IndexComparison(lid, ">", sympy.Integer(0)),),
    )
    writer.add(
        Variable(kind, "total", last),
        *other_half,
        Doubling("reach", items, (reached, *other_half)),
        Variable(kind, "before", "carry"),
        earlier_items,
        Let(kind, "whole", f"totals[here + {items - 1}]"),
        Assign("carry", combine("carry", "whole")),
    )
    with writer.inside(guard, guarded=True) if guard else nullcontext():
        earlier = "before" if width == 1 else f"({wide})(before)"
        writer.let(wide, "running", combine(earlier, "own", width))
        stored = Text(kernel.as_stored(m, "running", width), width > 1)
        writer.store(m.buffer.name, m.buffer.dtype, m.store, stored)
