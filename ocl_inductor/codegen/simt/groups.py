"""How a work-group of a GPU shares the sweeps of one row, or of some adjacent columns.

A group has ``across`` times ``down`` work-items. Where the sweep runs along contiguous memory, the
whole group sweeps one row. Where adjacent points are contiguous (sums of columns), ``across`` items
take adjacent columns, and the ``down`` items of a column share its sweep.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.codegen.lanes import Lanes, contiguity
from ocl_inductor.codegen.simt.points import fits_vector
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import loads, walk
from ocl_inductor.ir.index import is_static, prod
from ocl_inductor.schedule.groups import LoopGroup

#: Shortest sweep for which a whole work-group shares one row.
MIN_ROW_SWEEP = 128
#: Shortest sweep that is split between the items of a column.
MIN_COLUMN_SWEEP = 32
#: Work-items that keep a compute unit busy.
ITEMS_PER_UNIT = 1024
MIN_GROUP, USUAL_GROUP, MAX_GROUP = 64, 256, 1024
#: With fewer columns than this, items are not spread over columns.
MIN_COLUMNS = 8
#: Items across columns: as many as fill whole cache lines, or where there are few columns, one
#: sector of a line, which is the smallest memory transaction.
MAX_ACROSS, SECTOR_BYTES = 32, 32
#: Steps of a sweep that each item should take, so that several reads are in flight.
USUAL_STEPS, MIN_STEPS = 4, 2
WIDTH = 4
#: Most operations, in lanes, of the bodies of a group with 1024 work-items.
MAX_NODES = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """Lanes of a work-item, points across a group, and items that share the sweep of one."""

    lanes: Lanes
    across: int
    down: int

    @property
    def items(self) -> int:
        return self.across * self.down


def choose_shape(group: LoopGroup, device: DeviceInfo) -> Shape | None:
    """How groups sweep; None: each work-item sweeps its own points."""
    if not group.inner or {m.kind for m in group.members} & {"scan", "scatter"}:
        return None
    if by_columns(group):
        return _columns(group, device)
    sweep = prod(list(group.inner))
    if is_static(sweep) and int(sweep) < MIN_ROW_SWEEP:
        return None
    v = group.inner_vars[-1]
    width = WIDTH if fits_vector(group, v, group.inner[-1], WIDTH) else 1
    lanes = Lanes(v if width > 1 else None, width, width > 1)
    rows = prod(list(group.outer))
    most = _most_items(group, device, width)
    down = min(USUAL_GROUP, most)
    if is_static(sweep):
        steps = int(sweep) // width
        while down > MIN_GROUP and steps < USUAL_STEPS * down:
            down //= 2
        if is_static(rows):
            wanted = ITEMS_PER_UNIT * device.compute_units
            while down < most and int(rows) * down < wanted and steps >= 2 * MIN_STEPS * down:
                down *= 2
    return Shape(lanes, 1, down)


def by_columns(group: LoopGroup) -> bool:
    """Whether adjacent points, rather than steps of a sweep, are contiguous in memory."""
    if not group.outer:
        return False
    if is_static(group.outer[-1]) and int(group.outer[-1]) < MIN_COLUMNS:
        return False
    points, sweep = group.outer_vars[-1], group.inner_vars[-1]
    return contiguity(group, points) > contiguity(group, sweep)


def _columns(group: LoopGroup, device: DeviceInfo) -> Shape | None:
    sweep, points = prod(list(group.inner)), prod(list(group.outer))
    wanted = ITEMS_PER_UNIT * device.compute_units
    if is_static(sweep) and int(sweep) < MIN_COLUMN_SWEEP:
        return None
    if is_static(points) and int(points) >= wanted:
        return None
    v, size = group.outer_vars[-1], group.outer[-1]
    width = WIDTH if fits_vector(group, v, size, WIDTH) else 1
    lanes = Lanes(v if width > 1 else None, width, False)
    most = _most_items(group, device, width)
    items = min(USUAL_GROUP, most)
    across = min(MAX_ACROSS, items)
    if is_static(points):
        columns = int(points) // width
        while across > 1 and across // 2 >= columns:
            across //= 2
        steps = int(sweep) if is_static(sweep) else USUAL_STEPS * MAX_GROUP
        least = _least_across(group, width)
        # Too few columns: more items on each, first in larger groups, then in narrower ones.
        while columns // across * items < wanted and items < most:
            if steps < 2 * MIN_STEPS * (items // across):
                break
            items *= 2
        while columns // across * items < wanted and across > least:
            if steps < 2 * MIN_STEPS * (items // across):
                break
            across //= 2
    return Shape(lanes, across, items // across)


def _least_across(group: LoopGroup, width: int) -> int:
    """The fewest items across that use a whole memory transaction, in vectors of ``width``."""
    size = max((e.dtype.itemsize for m in group.members for e in loads(m.body)), default=4)
    return max(SECTOR_BYTES // (width * size), 1)


def _most_items(group: LoopGroup, device: DeviceInfo, width: int) -> int:
    """Work-items whose partial results fit into half of the local memory; a power of two."""
    each = 0
    for m in group.members:
        if m.kind == "reduction":
            each += 16 if m.how.startswith("arg") else 0
            each += {"float": 4, "int": 4}.get(register_type(m.body.dtype, 1), 8)
    bodies = sum(1 for m in group.members for _ in walk(m.body))
    # Work-items of the largest groups have few registers.
    largest = MAX_GROUP if bodies * width <= MAX_NODES else MAX_GROUP // 2
    most = min(largest, device.max_work_group_size)
    if each:
        most = min(most, device.local_mem_bytes // 2 // (each * width))
    return 1 << (max(most, 1).bit_length() - 1)
