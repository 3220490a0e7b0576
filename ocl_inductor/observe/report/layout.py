"""Places boxes that depend on one another in layers, top to bottom (Sugiyama's method).

Layers by longest path; order within a layer by the mean position of neighbours, swept down and up;
coordinates by least squares towards the neighbours under the distances that boxes need.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

GAP_X = 28.0
GAP_Y = 46.0
#: An edge over more layers than this is drawn straight through, behind everything.
LONGEST_ROUTED = 12
_SWEEPS = 6
_BEND = 10.0  # width that a routed edge takes in the layers it crosses


@dataclass(frozen=True, slots=True)
class Box:
    """Width and height, in pixels. ``late``: placed just before the first box that needs it."""

    width: float
    height: float
    late: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The points through which an edge runs, from the bottom of one box to the top of another."""

    source: int
    target: int
    points: tuple[tuple[float, float], ...]
    routed: bool


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Top left corners of the boxes, routes of the edges, and the size of the whole picture."""

    corners: tuple[tuple[float, float], ...]
    routes: tuple[Route, ...]
    width: float
    height: float


def place(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Lay out a graph without cycles; ``edges`` lead from a box to one that needs it."""
    if not boxes:
        return GraphLayout((), (), 0, 0)
    edges = list(dict.fromkeys((a, b) for a, b in edges if a != b))
    return _Placing(boxes, edges).run()


class _Placing:
    def __init__(self, boxes: Sequence[Box], edges: list[tuple[int, int]]) -> None:
        self.boxes = boxes
        self.edges = edges
        self.layer = _layers(boxes, edges)
        # Each layer holds boxes and, from len(boxes) on, the bends of edges that cross it.
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer) + 1)]
        self.width = [b.width for b in boxes]
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        for n, row in enumerate(self.layer):
            self.rows[row].append(n)
        self.chains = {edge: self.chain(*edge) for edge in edges}
        self.x = [0.0] * len(self.width)

    def chain(self, a: int, b: int) -> list[int] | None:
        """Bends of an edge, one for each layer that it crosses; None for one that is too long."""
        first, last = self.layer[a], self.layer[b]
        if last - first > LONGEST_ROUTED:
            return None
        chain = [a]
        for row in range(first + 1, last):
            bend = len(self.width)
            self.width.append(_BEND)
            self.above.append([])
            self.below.append([])
            self.rows[row].append(bend)
            chain.append(bend)
        chain.append(b)
        for upper, lower in itertools.pairwise(chain):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return chain

    def run(self) -> GraphLayout:
        self.spread()
        for _ in range(_SWEEPS):
            for row in self.rows[1:]:
                self.reorder(row, self.above)
            for row in reversed(self.rows[:-1]):
                self.reorder(row, self.below)
        self.spread()
        for sweep in range(4 * _SWEEPS):
            rows = self.rows if sweep % 2 == 0 else self.rows[::-1]
            for row in rows:
                self.pull(row)
        return self.finished()

    def spread(self) -> None:
        """Each layer side by side, around a common middle."""
        for row in self.rows:
            total = sum(self.width[n] + GAP_X for n in row) - GAP_X
            x = -total / 2
            for n in row:
                self.x[n] = x + self.width[n] / 2
                x += self.width[n] + GAP_X

    def reorder(self, row: list[int], neighbours: list[list[int]]) -> None:
        place = {n: i for i, n in enumerate(row)}

        def wanted(n: int) -> float:
            near = neighbours[n]
            return sum(self.x[m] for m in near) / len(near) if near else self.x[n]

        row.sort(key=lambda n: (wanted(n), place[n]))
        x = sum(self.x[n] for n in row) / len(row)
        x -= (sum(self.width[n] + GAP_X for n in row) - GAP_X) / 2
        for n in row:
            self.x[n] = x + self.width[n] / 2
            x += self.width[n] + GAP_X

    def pull(self, row: list[int]) -> None:
        """Move a layer's boxes towards their neighbours' mean, keeping order and distances."""
        wanted: list[tuple[float, float]] = []
        offset = 0.0
        offsets: list[float] = []
        for i, n in enumerate(row):
            if i:
                offset += (self.width[row[i - 1]] + self.width[n]) / 2 + GAP_X
            offsets.append(offset)
            near = self.above[n] + self.below[n]
            # What is placed late hangs on the side and must not bend the main line.
            pull = [0.02 if m < len(self.boxes) and self.boxes[m].late else 1.0 for m in near]
            aim = self.x[n]
            if near:
                aim = sum(p * self.x[m] for p, m in zip(pull, near, strict=True)) / sum(pull)
            # Bends weigh more, so that long edges run straight.
            weight = 4.0 if n >= len(self.boxes) else 1.0 + 0.1 * len(near)
            wanted.append((aim - offset, weight))
        for n, x, shift in zip(row, _increasing(wanted), offsets, strict=True):
            self.x[n] = x + shift

    def finished(self) -> GraphLayout:
        left = min(x - w / 2 for x, w in zip(self.x, self.width, strict=True))
        top: list[float] = []
        y = 0.0
        for row in self.rows:
            top.append(y)
            y += max((self.boxes[n].height for n in row if n < len(self.boxes)), default=0) + GAP_Y
        corners = tuple(
            (self.x[n] - box.width / 2 - left, top[self.layer[n]])
            for n, box in enumerate(self.boxes)
        )
        routes = []
        for (a, b), chain in self.chains.items():
            start = (self.x[a] - left, corners[a][1] + self.boxes[a].height)
            end = (self.x[b] - left, corners[b][1])
            bends: list[tuple[float, float]] = []
            for step, n in enumerate((chain or [])[1:-1], 1):
                crossed = self.layer[a] + step
                bends += [
                    (self.x[n] - left, top[crossed] - 4),
                    (self.x[n] - left, top[crossed + 1] - GAP_Y + 4),
                ]
            routes.append(Route(a, b, (start, *bends, end), chain is not None))
        right = max(x + w / 2 for x, w in zip(self.x, self.width, strict=True))
        return GraphLayout(corners, tuple(routes), right - left, y - GAP_Y)


def _layers(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path to each box; late boxes go down to just above what needs them."""
    below: list[list[int]] = [[] for _ in boxes]
    waiting = [0] * len(boxes)
    for a, b in edges:
        below[a].append(b)
        waiting[b] += 1
    layer = [0] * len(boxes)
    ready = [n for n in range(len(boxes)) if not waiting[n]]
    order: list[int] = []
    while ready:
        n = ready.pop()
        order.append(n)
        for m in below[n]:
            layer[m] = max(layer[m], layer[n] + 1)
            waiting[m] -= 1
            if not waiting[m]:
                ready.append(m)
    if len(order) != len(boxes):
        raise ValueError("the graph has a cycle")
    for n in reversed(order):
        if boxes[n].late and below[n]:
            layer[n] = min(layer[m] for m in below[n]) - 1
    return layer


def _increasing(wanted: Sequence[tuple[float, float]]) -> list[float]:
    """The nondecreasing numbers nearest to ``(value, weight)`` pairs in weighted least squares.

    Pool adjacent violators (Ayer et al., 1955).
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in wanted:
        count = 1
        while pools and pools[-1][0] > value:
            other, more, n = pools.pop()
            value = (value * weight + other * more) / (weight + more)
            weight, count = weight + more, count + n
        pools.append((value, weight, count))
    return [value for value, _, count in pools for _ in range(count)]
