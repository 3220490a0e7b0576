"""How the points of a loop group are spread over the work-items of a GPU.

Starting a work-group costs a compute unit about 150 cycles (an H200 started 12 million groups a
second on each unit, whatever they did), and memory latency is about a thousand: a work-item takes
several elements, whose reads are in flight together, and a group is as large as the points allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy

from ocl_inductor.codegen.statements.indexing import known_multiple, lane_stride, same_side
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import Expr, loads, walk
from ocl_inductor.ir.index import Size, as_size, is_static
from ocl_inductor.schedule.groups import LoopGroup, Member

#: Bytes that one load or store of a work-item should have.
VECTOR_BYTES = 16
#: Work-groups for each compute unit before groups, or the points of a work-item, grow.
GROUPS_PER_UNIT = 4
MIN_GROUP, MAX_GROUP = 64, 256
#: Most points of a work-item where they are not adjacent.
MAX_ROUNDS = 4
#: Loads of a point from which one point for each work-item saturates memory.
MANY_LOADS = 8


def group_size(items: Size, device: DeviceInfo) -> int:
    """Work-items of a group, where ``items`` are independent of each other."""
    size = MAX_GROUP
    if is_static(items):
        while size > MIN_GROUP and int(items) < size * GROUPS_PER_UNIT * device.compute_units:
            size //= 2
    return min(size, device.max_work_group_size)


def quotient(size: Size, divisor: int) -> Size:
    """``size / divisor``, which is known to be an integer."""
    return size if divisor == 1 else as_size(sympy.expand(sympy.sympify(size) / divisor))


def neighbours(group: LoopGroup, device: DeviceInfo) -> int:
    """Points along the innermost outer dimension that one work-item takes as a vector; 1: none."""
    if not group.outer:
        return 1
    v, size = group.outer_vars[-1], group.outer[-1]
    whole = [m.buffer.dtype.itemsize for m in group.members if m.buffer.name in group.stored]
    whole += [e.dtype.itemsize for m in group.members for e in _own_loads(group, m)]
    width = max(VECTOR_BYTES // max(whole, default=4), 4) if whole else 4
    width = min(width, 8)
    while width >= 4:
        if _enough(group, width, device) and fits_vector(group, v, size, width):
            return width
        width //= 2
    return 1


def rounds(group: LoopGroup, total: Size, device: DeviceInfo) -> int:
    """Points that a work-item takes one after the other, in a grid-stride loop.

    A divisor of ``total``, so that no iteration needs a bounds check.
    """
    if group.inner or not is_static(total):
        return 1
    if sum(1 for m in group.members for _ in _own_loads(group, m)) >= MANY_LOADS:
        return 1
    for count in range(MAX_ROUNDS, 1, -1):
        if int(total) % count == 0 and _enough(group, count, device):
            return count
    return 1


def _enough(group: LoopGroup, each: int, device: DeviceInfo) -> bool:
    """Whether the device is fully occupied when a work-item takes ``each`` points."""
    if not all(map(is_static, group.outer)):
        return True
    total = 1
    for n in group.outer:
        total *= int(n)
    # The latency of a sweep's dependent steps is hidden only by other work-items.
    least = GROUPS_PER_UNIT * (4 if group.inner else 1) * MIN_GROUP * device.compute_units
    return total >= each * least


def fits_vector(group: LoopGroup, v: sympy.Symbol, size: Size, width: int) -> bool:
    """Whether the group can be computed in vectors of ``width`` along ``v`` without gathers.

    Every access must be contiguous, or of the same element for all lanes.
    """
    if known_multiple(sympy.expand(size), v, width) % width:
        return False
    for m in group.members:
        if m.kind == "scatter" or (m.store_indirect and m.kind == "pointwise"):
            return False
        stored, stride = m.buffer.name in group.stored, _stride(m.store, v, width)
        if stored and stride != 1 and not (stride == 0 and _once_a_sweep(group, m, v)):
            return False
        if not all(_suits(e, v, width) for root in (m.body, *m.store_indirect) for e in walk(root)):
            return False
    return True


def _once_a_sweep(group: LoopGroup, m: Member, v: sympy.Symbol) -> bool:
    """Whether a store is independent of ``v`` because it is made once after a sweep over it."""
    return v in group.inner_vars and (m.row or m.kind == "reduction")


def _suits(e: Expr, v: sympy.Symbol, width: int) -> bool:
    """Whether a node is the same work for a vector of points as for one."""
    if e.op == "load":
        return _stride(e.payload.index, v, width) in (0, 1) and all(
            _uniform(a, v, width) for a in e.args
        )
    if e.op == "masked":
        condition, value, _ = e.args
        return not any(True for _ in loads(value)) or _uniform(condition, v, width)
    return True


def _uniform(root: Expr, v: sympy.Symbol, width: int) -> bool:
    """Whether the emitter gives one value for all points of a vector."""
    stack, seen = [root], {root}
    while stack:
        e = stack.pop()
        if e.op == "index" and _stride(e.payload, v, width) != 0:
            return False
        if e.op == "load" and _stride(e.payload.index, v, width) != 0:
            return False
        if e.op in ("lt", "ge") and same_side(e.args[0], e.args[1], v, width) is not None:
            continue
        stack += (a for a in e.args if a not in seen)
        seen.update(e.args)
    return True


def _stride(index: sympy.Expr, v: sympy.Symbol, width: int) -> int | None:
    split = lane_stride(index, v, width)
    return None if split is None else split[1]


def _own_loads(group: LoopGroup, m: Member) -> Iterator[Expr]:
    """Loads of other kernels' results."""
    own = {x.buffer.name for x in group.members}
    roots: Sequence[Expr] = (m.body, *m.store_indirect)
    return (e for root in roots for e in loads(root) if e.payload.buffer not in own)
