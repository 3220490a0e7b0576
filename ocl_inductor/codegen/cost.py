"""The work of a kernel: arithmetic operations, and bytes of memory it has to touch.

Operations are those of the computation, each counted once however often a kernel repeats it: a
template's as its spec says, a loop's as the nodes of its body for each point. An addition, a
minimum, a division and a transcendental function are one operation each, a multiply-add two.
Loads, conversions, selections, comparisons, logic and bit operations are none, and neither is index
arithmetic. A reduction or scan adds one for each element it accumulates.

Bytes count the touched part of each buffer once for reading and once for writing: a load
touches at most as many elements as it has distinct points, and at most the whole buffer. What stays
in registers is free. A gather counts an element for each point, although caches may save some.

Calls are evaluations of functions that take many instructions; they count as operations as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sympy

from ocl_inductor.ir.expr import Expr, loads, walk
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.ir.ops import EXPENSIVE, PRIMITIVES, UNCOUNTED
from ocl_inductor.schedule.groups import LoopGroup, Member, TemplateGroup
from ocl_inductor.templates.registry import SPECS

_PASSES, _ENDS_OF_LOOPS = 4, 7
_FREE_FOLDS = frozenset({"any", "all", "set"})


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one call of a kernel; each may contain size symbols."""

    flops: Size
    bytes: Size
    calls: Size


def loop_rounds(group: LoopGroup, lanes: int) -> Size:
    """Rounds of all loops of a kernel's work-items, rather too many: passes over a row of the
    innermost variable, by so many lanes, of which not all may have work; and for each row the ends
    of the loops over blocks, vectors and the rest of them, and one outside."""
    passes = 1 if all(m.kind == "pointwise" for m in group.members) else _PASSES
    *outer, inner = (1, *group.var_ranges.values())
    return prod(tuple(outer)) * (passes * inner // lanes + _ENDS_OF_LOOPS)


def group_cost(group: LoopGroup | TemplateGroup, buffers: Mapping[str, Buffer]) -> Cost:
    """The work of one kernel. ``buffers``: every buffer that it reads or writes, by name."""
    if isinstance(group, LoopGroup):
        touched = _Touched(group.var_ranges, buffers)
        flops, calls = _members(group.members, group, touched)
        return Cost(flops, touched.total(), calls)
    spec, template = SPECS[group.template.spec], group.template
    params = template.params
    ranges = dict(zip(loop_vars(len(group.space)), group.space, strict=True))
    touched = _Touched(ranges, buffers)
    flops, calls = spec.flops(params), 0
    nbytes = spec.bytes(params)
    if template.buffer.name not in group.stored:
        nbytes -= prod((template.buffer.itemsize, *spec.out_space(params)))
    for m in group.epilogue:
        flops += operations(m.body) * prod(group.space)
        calls += expensive_calls(m.body) * prod(group.space)
        touched.read(m, {template.buffer.name} | {e.buffer.name for e in group.epilogue})
        if m.buffer.name in group.stored:
            touched.write(m.buffer, prod(group.space))
    return Cost(flops, nbytes + touched.total(), calls)


def operations(body: Expr) -> int:
    """Arithmetic operations of one evaluation of a body; a shared part counts once."""
    total, seen, stack = 0, {body}, [body]
    while stack:
        node = stack.pop()
        total += 0 if node.op in UNCOUNTED else PRIMITIVES[node.op].cost.flops
        if node.op != "load":  # an address operand is index arithmetic
            found = set(node.args) - seen
            seen |= found
            stack += found
    return total


def expensive_calls(body: Expr) -> int:
    """Functions that take many instructions, in one evaluation of a body."""
    return sum(n.op in EXPENSIVE and n.dtype.is_floating_point for n in walk(body))


def _members(members: Iterable[Member], group: LoopGroup, touched: _Touched) -> tuple[Size, Size]:
    own = {m.buffer.name for m in group.members}
    rows, points = prod(group.outer), prod((*group.outer, *group.inner))
    flops: Size = 0
    calls: Size = 0
    for m in members:
        count = rows if m.row else points
        folds = m.kind != "pointwise" and m.how not in _FREE_FOLDS
        flops += (operations(m.body) + folds) * count
        calls += expensive_calls(m.body) * count
        touched.read(m, own)
        if m.buffer.name in group.stored:
            touched.write(m.buffer, rows if m.kind == "reduction" else count)
            if m.kind == "scatter" and m.how != "set":
                touched.update(m.buffer, count)
    return flops, calls


class _Touched:
    """Elements read and written of each buffer."""

    def __init__(self, ranges: Mapping[sympy.Symbol, Size], buffers: Mapping[str, Buffer]) -> None:
        self.ranges = ranges
        self.buffers = buffers
        self.reads: dict[tuple[str, object], Size] = {}
        self.writes: dict[Buffer, Size] = {}

    def read(self, member: Member, own: set[str]) -> None:
        """Note the loads of a member from buffers that are not the kernel's own."""
        for root in (member.body, *member.store_indirect):
            for node in loads(root):
                access = node.payload
                if access.buffer not in own:
                    self.reads[access.buffer, (access.index, node.args)] = self._points(node)

    def _points(self, node: Expr) -> Size:
        """Distinct points of a load: of the loop variables that its address depends on."""
        if node.args:  # indirect: the address may differ at each point
            return prod(tuple(self.ranges.values()))
        used = node.payload.index.free_symbols
        return prod([n for v, n in self.ranges.items() if v in used])

    def update(self, buffer: Buffer, count: Size) -> None:
        """Note a read-modify-write."""
        self.reads[buffer.name, "update"] = count

    def write(self, buffer: Buffer, count: Size) -> None:
        self.writes[buffer] = count

    def total(self) -> Size:
        read: dict[str, Size] = {}
        for (name, _), count in self.reads.items():
            read[name] = read.get(name, 0) + count
        sums: Size = 0
        for name, count in read.items():
            buffer = self.buffers[name]
            sums += buffer.itemsize * _least(count, buffer.storage)
        for buffer, count in self.writes.items():
            sums += buffer.itemsize * _least(count, buffer.storage)
        return sums


def _least(a: Size, b: Size) -> Size:
    if is_static(a) and is_static(b):
        return min(int(a), int(b))
    return a if same(a, b) else sympy.Min(a, b)
