"""What a kernel does with memory, checked by going through it with numbers in place of data.

Sizes are known, or typical. For all work-items and all rounds of their loops at once (for some of
them, where there are very many) the variables that index memory get their values; so each direct
read and store has known positions:

* no access outside of its buffer, unless data or a border's condition decides about it;
* every element of a result is stored, and once where a second time would change it;
* all work-items of a group come to each barrier equally often.

Positions that data gives are bounded by the kernel itself (statements/index_checks.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy

from ocl_inductor.codegen.tree.evaluate import Numbers, UnknownIndexError, evaluated
from ocl_inductor.codegen.tree.nodes import (
    GROUP_ID,
    LOCAL_ID,
    Assign,
    Barrier,
    BlockStatement,
    CountOn,
    Doubling,
    Elements,
    For,
    If,
    IndexComparison,
    Let,
    LoopBound,
    Statement,
    Store,
    Variable,
    item_id,
    variable,
)
from ocl_inductor.errors import VerifyError

#: Points that are looked at together; of more, as many at equal distances.
MOST_POINTS = 1 << 15
#: Elements of a result up to which it is counted how often each is stored.
MOST_COUNTED = 1 << 20

#: Values of variables by name: an array each, with an element for each point.
Points = dict[str, Numbers]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a kernel is to do.

    Attributes:
        storage: elements of each buffer.
        stored: how many different elements of each result it stores.
        once: results of which no element may be stored twice: the second time would read the first.
        part_of: the buffer whose memory another one continues; the above is said of that one.
    """

    storage: Mapping[str, int]
    stored: Mapping[str, int]
    once: frozenset[str]
    part_of: Mapping[str, str]

    def memory(self, buffer: str) -> str:
        return self.part_of.get(buffer, buffer)


def verify_kernel(
    name: str,
    tree: Sequence[Statement],
    items: int,
    group: int,
    sizes: Mapping[str, int],
    expected: Expected,
) -> None:
    """Check a kernel of ``items`` work-items in groups of ``group``; ``sizes``: by their symbols.

    Raises:
        VerifyError: it breaks one of the rules above.
    """
    whole = items <= MOST_POINTS
    # Whole groups: the first, the last, some between.
    groups = _some(items // group, max(MOST_POINTS // group, 1))
    chosen = (groups[:, None] * group + np.arange(group)).reshape(-1)
    points: Points = {
        item_id(0).name: chosen,
        LOCAL_ID.name: chosen % group,
        GROUP_ID.name: chosen // group,
    }
    points |= {symbol: np.full_like(chosen, n) for symbol, n in sizes.items()}
    walk = _Walk(name, expected, group, whole)
    walk.through(tree, points, certain=True)
    walk.check_results()


def _some(count: int, most: int) -> Numbers:
    """All numbers below ``count``, or ``most`` of them, the first and the last included."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.unique(np.linspace(0, count - 1, most).astype(np.int64))


@dataclass
class _Walk:
    """``whole``: whether all points are looked at, so far."""

    name: str
    expected: Expected
    group: int
    whole: bool
    #: How often each element of a result is stored.
    counts: dict[str, Numbers] = field(default_factory=dict)
    #: Results of which some stores are not known.
    open: set[str] = field(default_factory=set)

    def through(self, statements: Sequence[Statement], points: Points, certain: bool) -> None:
        """Go through a block. ``certain``: what it does happens at all ``points``."""
        for s in statements:
            match s:
                case Let() | Variable():
                    if isinstance(s, Let):
                        self.read(s.reads, points, certain)
                    self.define(s.name, s.index, points)
                case Assign():
                    self.read(s.reads, points, certain)
                    points.pop(s.target, None)
                case Store():
                    self.store(s, points, certain)
                case Barrier():
                    self.meet(points, certain)
                case BlockStatement():
                    self.through(s.body, dict(points), certain)
                case If():
                    self.branch(s, points, certain)
                case Doubling():
                    for n in range(s.end.bit_length() - 1):
                        value = np.full_like(points[item_id(0).name], 1 << n)
                        self.through(s.body, {**points, s.variable: value}, certain)
                case For():
                    self.loop(s, points, certain)

    def define(self, name: str, index: sympy.Expr | None, points: Points) -> None:
        points.pop(name, None)
        value = None if index is None else self.value(index, points)
        if value is not None:
            points[name] = value

    def value(self, e: sympy.Expr, points: Points) -> Numbers | None:
        """The value at each point, or None where data decides."""
        try:
            found = evaluated(e, points)
        except UnknownIndexError:
            return None
        return np.broadcast_to(found, points[item_id(0).name].shape)

    # -- control flow ----------------------------------------------------------------------

    def branch(self, s: If, points: Points, certain: bool) -> None:
        taken = None if s.otherwise else self.holds(s.comparisons, points)
        if taken is None:
            self.through(s.body, dict(points), certain=False)
        elif taken.any():
            self.through(s.body, {k: v[taken] for k, v in points.items()}, certain)

    def holds(self, comparisons: Sequence[IndexComparison], points: Points) -> np.ndarray | None:
        sides = [(self.value(c.left, points), self.value(c.right, points)) for c in comparisons]
        if not sides or any(x is None or y is None for x, y in sides):
            return None
        signs: dict[str, Any] = {"<": np.less, "==": np.equal, ">": np.greater}
        pairs = zip(comparisons, sides, strict=True)
        held: np.ndarray = np.logical_and.reduce([signs[c.sign](x, y) for c, (x, y) in pairs])
        return held

    def loop(self, s: For, points: Points, certain: bool) -> None:
        """All rounds at once: each point becomes one for each of its rounds."""
        begin = LoopBound.named(s.variable) if s.begin is None else s.begin
        first, end = self.value(begin.value, points), self.value(s.end.value, points)
        if first is None or end is None:
            points.pop(s.variable, None)
            self.through(s.body, dict(points), certain=False)
            return
        rounds = np.maximum(-(-(end - s.room + 1 - first) // s.step), 0)
        ends = np.cumsum(rounds)
        total = int(ends[-1]) if len(ends) else 0
        self.whole = self.whole and total <= MOST_POINTS
        taken = _some(total, MOST_POINTS)
        which = np.searchsorted(ends, taken, side="right")
        number = taken - (ends - rounds)[which]
        inside = {k: v[which] for k, v in points.items()}
        inside[s.variable] = first[which] + number * s.step
        for counted in (x for x in s.body if isinstance(x, CountOn)):
            self.count_on(counted, begin, s, points, inside)
        if len(which):
            self.through(s.body, inside, certain)
        if s.begin is None:
            points[s.variable] = first + rounds * s.step

    def count_on(
        self, s: CountOn, begin: LoopBound, loop: For, points: Points, inside: Points
    ) -> None:
        """The coordinates in each round; those that the first one has were declared before."""
        for where, position in (
            (points, begin.value),
            (inside, variable(loop.variable)),
        ):
            rest = self.value(position, where)
            assert rest is not None, "a loop over points has known bounds"
            found = {}
            for v, extent in reversed(list(zip(s.variables[1:], s.extents, strict=True))):
                size = self.value(extent.value, where)
                assert size is not None, "extents are sizes"
                rest, found[v] = rest // size, rest % size
            found[s.variables[0]] = rest
            if where is inside:
                inside |= found
                continue
            for v, value in found.items():
                # Of a work-item without any rounds the beginning does not matter.
                end = self.value(loop.end.value, points)
                busy = self.value(begin.value, points) < end  # type: ignore[operator]
                if v not in points or not np.array_equal(points[v][busy], value[busy]):
                    self.fail(f"{v} does not begin at its coordinate of {loop.variable}")

    # -- memory ----------------------------------------------------------------------------

    def read(self, reads: Sequence[Elements], points: Points, certain: bool) -> None:
        for r in reads:
            buffer = self.expected.memory(r.buffer)
            if r.first is None or not certain or buffer not in self.expected.storage:
                continue
            for lane in range(r.lanes):
                first = (
                    r.first + lane if r.over is None else r.first.xreplace({r.over: r.over + lane})
                )
                at = self.value(first, points)
                if at is not None:
                    self.inside(buffer, at, "reads")

    def store(self, s: Store, points: Points, certain: bool) -> None:
        buffer = self.expected.memory(s.buffer)
        if s.space != "__global" or buffer not in self.expected.storage:
            return
        first = s.first
        if first is not None and s.lane is not None:
            v, n = s.lane
            first = first.xreplace({v: v + n})
        at = None if first is None or not certain else self.value(first, points)
        if at is None:
            self.open.add(buffer)
            return
        positions = (at[:, None] + np.arange(s.width)).reshape(-1)
        self.inside(buffer, positions, "stores to")
        size = self.expected.storage[buffer]
        if size <= MOST_COUNTED:
            count = self.counts.setdefault(buffer, np.zeros(size, np.int64))
            count += np.bincount(positions, minlength=size)

    def inside(self, buffer: str, at: Numbers, verb: str) -> None:
        size = self.expected.storage[buffer]
        if at.size and (at.min() < 0 or at.max() >= size):
            worst = int(at.max() if at.max() >= size else at.min())
            self.fail(f"{verb} element {worst} of {buffer}, which has {size}")

    def meet(self, points: Points, certain: bool) -> None:
        if not certain:
            self.fail("has a barrier where data decides which work-items come to it")
        if self.whole:
            local, group = points[LOCAL_ID.name], points[GROUP_ID.name]
            groups = int(group.max()) + 1
            came = np.bincount(group * self.group + local, minlength=groups * self.group)
            each = came.reshape(groups, self.group)
            if (each.min(axis=1) != each.max(axis=1)).any():
                self.fail("has a barrier that not all work-items of a group come to")

    def check_results(self) -> None:
        if not self.whole:
            return
        for buffer, wanted in self.expected.stored.items():
            size = self.expected.storage[buffer]
            if buffer in self.open or size > MOST_COUNTED or 0 in (wanted, size):
                continue
            count = self.counts.get(buffer, np.zeros(size, np.int64))
            found = int((count > 0).sum())
            if found != wanted:
                self.fail(f"stores {found} elements of {buffer}, and not {wanted}")
            if buffer in self.expected.once and count.max() > 1:
                self.fail(f"stores an element of {buffer} {count.max()} times")

    def fail(self, what: str) -> None:
        raise VerifyError("codegen", f"{self.name} {what}")
