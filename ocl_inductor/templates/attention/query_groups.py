"""Work-groups of attention in the simt profile (attention_simt.cl.jinja), and their choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.params import bytes_of
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.tuned_values import tuned_values

#: Neighbouring rows or columns of a work-item: a vector in local memory.
_NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class QueryGroupCosts:
    """What attention's work-groups are chosen by, in multiply-adds of one work-item.

    ``shapes``: (x, y, r_rows, r_keys) of groups; ``load``: of a vector from local memory;
    ``score``: of a score's maximum, exponential and way through local memory; ``block``: of a block
    of keys, its barriers and the exchange of maxima; ``alone``: factor where a compute unit has
    local memory for one group only, so that nothing else runs while it waits. ``registers``:
    numbers that a work-item may keep of scores and results. ``busy_items``: work-items that keep
    one compute unit busy; ``local_parts``: how many times a work-group's most local memory a
    compute unit has.
    """

    shapes: tuple[tuple[int, ...], ...]
    load: float
    score: float
    block: float
    alone: float
    registers: int
    busy_items: int
    local_parts: int


query_group_costs = tuned_values(QueryGroupCosts, "attention_groups.json")


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """``x`` x ``y`` work-items, each with ``r_rows`` x ``r_keys`` scores and the results of the
    same rows."""

    x: int
    y: int
    r_rows: int
    r_keys: int

    @property
    def items(self) -> int:
        return self.x * self.y

    @property
    def rows(self) -> int:
        """Queries of the group."""
        return self.y * self.r_rows

    @property
    def keys(self) -> int:
        """Keys of a block."""
        return self.x * self.r_keys

    @property
    def row_vector(self) -> int:
        """Neighbouring rows of a work-item."""
        return min(self.r_rows, _NEIGHBOURS)

    @property
    def key_vector(self) -> int:
        """Neighbouring keys of a work-item."""
        return min(self.r_keys, _NEIGHBOURS)

    def column_vector(self, v_width: int) -> int:
        """Neighbouring results of a row of ``v_width`` in a work-item."""
        return next(n for n in (4, 2, 1) if n * self.x <= v_width or n == 1)

    def columns(self, v_width: int) -> int:
        """Results of a row in a work-item, some past the row's end."""
        vector = self.column_vector(v_width)
        return ceil_div(v_width, self.x * vector) * vector

    @property
    def rows_pitch(self) -> int:
        """Elements from one column of queries to the next: they are written across."""
        return self.rows + self.row_vector

    @property
    def keys_pitch(self) -> int:
        """The same of keys."""
        return self.keys + self.key_vector

    def block_elements(self, width: int, v_width: int) -> int:
        """A block of keys, whose place its values take later."""
        return max(width * self.keys_pitch, self.keys * self.x * self.columns(v_width))

    def local_elements(self, width: int, v_width: int) -> int:
        """Queries, a block, its weights, and each work-item's maxima."""
        columns = (width + self.keys + self.x) * self.rows_pitch
        return columns + self.block_elements(width, v_width)


def choose_group(
    device: DeviceInfo, acc: str, rows: int, heads: int, width: int, v_width: int
) -> QueryGroup | None:
    """The work-group for ``heads`` times ``rows`` queries; None: local memory is too small."""
    return next(iter(candidate_groups(device, acc, rows, heads, width, v_width)), None)


def candidate_groups(
    device: DeviceInfo, acc: str, rows: int, heads: int, width: int, v_width: int
) -> list[QueryGroup]:
    """Those that fit, the most promising first."""
    return sorted(
        _fitting(device, acc, width, v_width),
        key=lambda g: _relative_time(device, acc, g, rows, heads, width, v_width),
    )


def _fitting(device: DeviceInfo, acc: str, width: int, v_width: int) -> Iterator[QueryGroup]:
    """Groups for which the device has room."""
    costs, item = query_group_costs(device), bytes_of(acc)
    for shape in costs.shapes:
        group = QueryGroup(*shape)
        registers = group.r_rows * (group.r_keys + group.columns(v_width)) * item // 4
        fits = group.local_elements(width, v_width) * item <= device.local_mem_bytes
        if fits and group.items <= device.max_work_group_size and (
            registers <= costs.registers or group.r_rows == 1
        ):  # fmt: skip
            yield group


def _relative_time(
    device: DeviceInfo, acc: str, group: QueryGroup, rows: int, heads: int, width: int, v_width: int
) -> float:
    """Multiply-adds one after the other, for each key, on the compute unit with most to do."""
    costs, columns = query_group_costs(device), group.columns(v_width)
    row_vectors = group.r_rows // group.row_vector
    vectors = width * (row_vectors + group.r_keys // group.key_vector)
    vectors += group.keys * (row_vectors + columns // group.column_vector(v_width))
    products = group.r_rows * (width * group.r_keys + group.keys * columns)
    scores = costs.score * group.r_rows * group.r_keys
    work = products + costs.load * vectors + scores + costs.block
    turns = ceil_div(ceil_div(rows, group.rows) * heads, device.compute_units)
    local = group.local_elements(width, v_width) * bytes_of(acc)
    room = max(costs.local_parts * device.local_mem_bytes // local, 1)
    together = min(min(turns, room) * group.items / costs.busy_items, 1.0)
    time = turns * group.items * work / group.keys / together**0.5
    return time * costs.alone if room == 1 else time
