"""Loop groups in the ``simt`` profile: coalesced work-items, reductions in local memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import Lanes
from ocl_inductor.codegen.loops.base import LoopKernel
from ocl_inductor.codegen.simt import points as simt_points
from ocl_inductor.codegen.simt.groups import Shape
from ocl_inductor.codegen.simt.kept import kept_rows, swept_loads
from ocl_inductor.codegen.simt.points import quotient
from ocl_inductor.codegen.statements.accumulators import declared, folded_lanes
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.tree.nodes import (
    GROUP_ID,
    LOCAL_ID,
    Accumulate,
    Accumulator,
    Array,
    Assign,
    Barrier,
    BlockStatement,
    For,
    IndexComparison,
    Let,
    LoopBound,
    Statement,
    all_below,
    all_hold,
    item_id,
    variable,
)
from ocl_inductor.codegen.work import ceil_div
from ocl_inductor.ir.dtypes import register_type, vector
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.plan.kernel_code import item
from ocl_inductor.schedule.groups import Member

NONE: frozenset[sympy.Symbol] = frozenset()
UNROLL = "#pragma unroll"
#: Of the work-items that share a point, the first.
FIRST = IndexComparison(variable("down"), "==", sympy.Integer(0))
#: Not one that repeats the last point.
IN_COLUMN = IndexComparison(variable("column"), "==", variable("point"))
#: Partial results that one work-item combines sequentially.
MAX_FOLD = 8


class SimtKernel(LoopKernel):
    """Profile ``simt``: work-items for points, or work-groups for rows or columns."""

    #: Whether several work-items (``down``) hold the values of each point.
    shared = False
    #: What holds for one of the work-items of a point; empty: a point has only one.
    visitor: tuple[IndexComparison, ...] = ()

    # -- a point, or some, for each work-item ------------------------------------------------

    def points(self) -> KernelSource:
        """A work-item for each point, a vector of adjacent points, or several strided ones."""
        width = simt_points.neighbours(self.group, self.device)
        total = prod(list(self.group.outer))
        count = simt_points.rounds(self.group, total, self.device) if width == 1 else 1
        items = quotient(total, width * count)
        lanes = Lanes(self.outer_vars[-1] if width > 1 else None, width, False)
        writer = self.emitter(lanes, NONE)
        name = "point" if count == 1 else "first"
        writer.let(self.index, name, item(0), item_id(0))
        variables, end = frozenset(self.outer_vars), self.bound(items)
        first = variable(name)
        with writer.inside(all_below((name, end)), variables if count == 1 else NONE):
            if count == 1:
                self.coordinates(writer, name, self.outer_vars, width)
                self.outer_point_levels(writer)
            else:
                rounds = For("int", "round", LoopBound.of(0), LoopBound.of(count), pragma=UNROLL)
                with writer.inside(rounds, variables):
                    apart = f"{name} + round * {end.text}"
                    point = first + variable("round") * end.value
                    writer.let(self.index, "point", apart, point)
                    self.coordinates(writer, "point", self.outer_vars)
                    self.outer_point_levels(writer)
        group = simt_points.group_size(items, self.device)
        size = (prod((ceil_div(items, group), group)),)
        return self.kernel(writer.scopes[0].statements, size, (group,), items=1)

    def coordinates(
        self, writer: Emitter, position: str, variables: Sequence[sympy.Symbol], width: int = 1
    ) -> None:
        """Declare row-major coordinates of ``position`` over ``variables``, the innermost first.

        Each takes one division, which most GPUs do in software, and its remainder.
        ``width``: points along the last variable, which it divides, in one position.
        """
        rest = position
        for k, v in reversed(list(enumerate(variables))):
            last = k + 1 == len(variables)
            size = quotient(self.size_of[v], width) if last else self.size_of[v]
            text, value = rest, variable(rest)
            if k > 0:
                divisor = self.text(size)
                text, further = f"{rest} % ({divisor})", str(variables[0])
                further = writer.fresh("q") if k > 1 else further
                writer.let(self.index, further, f"{rest} / ({divisor})", FloorDiv(value, size))
                rest, value = further, ModularIndexing(value, 1, size)
            if width > 1 and last:
                text, value = f"{text} * {width}", value * width
            if text != str(v):
                writer.let(self.index, str(v), text, value)

    # -- a work-group for each row, or for some columns --------------------------------------

    def sweeps(self, shape: Shape) -> KernelSource:
        """Sweeps shared by work-items, which combine their partial results in local memory."""
        self.shared = shape.down > 1
        lanes, across = shape.lanes, shape.across
        levels = [self.swept(level) for level in range(self.levels)]
        self.kept = kept_rows(
            levels, self.members, self.group.stored, self.inner_vars, self.steps(shape), shape
        )
        points = prod(list(self.group.outer))
        if not lanes.over_sweep:
            points = quotient(points, lanes.width)
        writer = self.emitter(lanes, NONE)
        clamped = False
        if across == 1:
            writer.let(self.index, "point", "get_group_id(0)", GROUP_ID)
            writer.let("int", "down", "get_local_id(0)", LOCAL_ID)
        else:
            writer.let("int", "lid", "get_local_id(0)", LOCAL_ID)
            lid = variable("lid")
            writer.let("int", "across", f"lid % {across}", ModularIndexing(lid, 1, across))
            writer.let("int", "down", f"lid / {across}", FloorDiv(lid, across))
            point = f"({self.index})get_group_id(0) * {across} + across"
            value = GROUP_ID * across + variable("across")
            clamped = not is_static(points) or bool(int(points) % across)
            if clamped and self.in_place:
                writer.let(self.index, "column", point, value)
                point, value = "column", variable("column")
            if clamped:
                # Beyond the end, items repeat the last point.
                point = f"min({point}, ({self.index})({self.text(points)}) - 1)"
                value = sympy.Min(value, sympy.sympify(points) - 1)
            writer.let(self.index, "point", point, value)
        own = [FIRST] if self.shared else []
        self.visitor = (*own, IN_COLUMN) if clamped else tuple(own)
        with writer.inside(BlockStatement(()), frozenset(self.outer_vars)):
            width = 1 if lanes.over_sweep else lanes.width
            self.coordinates(writer, "point", self.outer_vars, width)
            writer.add(*self.kept.declarations(lanes.width))
            for level in range(self.levels):
                self.begin_level(writer, level)
                if self.swept(level):
                    self.shared_sweep(writer, shape, level)
                    self.end_level(writer, level)
        statements = [*self.local_arrays(shape), *writer.scopes[0].statements]
        size = (prod((ceil_div(points, across), shape.items)),)
        return self.kernel(statements, size, (shape.items,))

    def shared_sweep(self, writer: Emitter, shape: Shape, level: int) -> None:
        """One level: each item's part of the sweep, the combination, and the results."""
        members, width = self.swept(level), shape.lanes.width
        accumulators = self.accumulators(level, width, "")
        whole = self.whole(shape, level)
        across_lanes = whole if shape.lanes.over_sweep and width > 1 else {}
        for a in (*accumulators.values(), *across_lanes.values()):
            writer.add(*declared(a))
        swept, steps = sympy.Symbol("swept"), self.steps(shape)
        end = self.bound(steps)
        pieces = self.pieces(members, [(swept, ceil_div(steps, shape.down))])
        with self.blocking(writer, pieces, members, accumulators):
            self._strided(writer, shape, end, members, accumulators)
        reductions = [m for m in members if m.kind == "reduction"]
        for name, a in across_lanes.items():
            wide = accumulators[name]
            writer.add(*folded_lanes(wide, a, self.device, f"{wide.name}_lane"))
        self.fold_group(writer, [whole[m.buffer.name] for m in reductions], shape)
        for m in reductions:
            self.finish_reduction(writer, m, whole[m.buffer.name])

    def steps(self, shape: Shape) -> Size:
        """Elements of a sweep, or vectors of them."""
        total = prod(list(self.group.inner))
        return quotient(total, shape.lanes.width) if shape.lanes.over_sweep else total

    def once_a_point(self, writer: Emitter) -> AbstractContextManager[None]:
        return writer.inside(all_hold(FIRST)) if self.shared else nullcontext()

    def evaluate_row(self, writer: Emitter, m: Member) -> None:
        if not (self.visitor and m.buffer.name in self.in_place):
            super().evaluate_row(writer, m)
            return
        # Another work-item at the same point might read what the first has written, so only one
        # reads and writes; the result has no other use (memory/updates.py).
        with writer.inside(all_hold(*self.visitor), guarded=True):
            value = writer.emit(m.body)
            writer.store(m.buffer.name, m.buffer.dtype, m.store, value)

    def whole(self, shape: Shape, level: int) -> Mapping[str, Accumulator]:
        """The accumulators that items combine; scalar ones if lanes run along the sweep."""
        if shape.lanes.over_sweep:
            return self.accumulators(level, 1, "_s")
        return self.accumulators(level, shape.lanes.width, "")

    def _strided(
        self,
        writer: Emitter,
        shape: Shape,
        end: LoopBound,
        members: Sequence[Member],
        accumulators: Mapping[str, Accumulator],
    ) -> None:
        """Adjacent work-items take adjacent elements of the row (coalesced)."""
        down = LoopBound.named("down")
        head = For(self.index, "swept", down, end, step=shape.down)
        rounds = self.kept.rounds
        if rounds:
            head = For("int", "k", LoopBound.of(0), LoopBound.of(rounds), pragma=UNROLL)
        with writer.inside(head, frozenset(self.inner_vars)):
            if rounds:
                value = down.value + variable("k") * shape.down
                writer.let(self.index, "swept", f"down + k * {shape.down}", value)
            width = shape.lanes.width if shape.lanes.over_sweep else 1
            self.coordinates(writer, "swept", self.inner_vars, width)
            own = swept_loads(members, self.members, self.group.stored, self.inner_vars)
            self.kept.use(writer, own)
            for m in members:
                self.visit(writer, m, accumulators)

    def local_arrays(self, shape: Shape) -> list[Statement]:
        found: list[Statement] = []
        for level in range(self.levels):
            for a in self.whole(shape, level).values():
                kind = register_type(a.dtype, a.width)
                found.append(Array(kind, f"{a.name}_local", (shape.items,), "__local"))
                if a.is_position:
                    kind = vector(a.position_type, a.width)
                    found.append(Array(kind, f"{a.name}_at_local", (shape.items,), "__local"))
        return found

    def fold_group(self, writer: Emitter, folded: Sequence[Accumulator], shape: Shape) -> None:
        """Combine the items of each column; each of them gets the full results.

        In two steps: two barriers, where a tree needs one for each halving.
        """
        if shape.down == 1 or not folded:
            return
        across, rest = shape.across, shape.down
        if rest > MAX_FOLD:
            rest = 1 << (rest.bit_length() // 2)
        own = "down" if across == 1 else "lid"

        def publish() -> Iterable[Statement]:
            for a in folded:
                yield Assign(f"{a.name}_local[{own}]", a.name)
                if a.is_position:
                    yield Assign(f"{a.name}_at_local[{own}]", f"{a.name}_at")

        def take(step: str) -> Iterable[Statement]:
            for a in folded:
                kind, other = register_type(a.dtype, a.width), f"{a.name}_other"
                yield Let(kind, other, f"{a.name}_local[{step}]")
                if a.is_position:
                    kind = vector(a.position_type, a.width)
                    yield Let(kind, f"{other}_at", f"{a.name}_at_local[{step}]")
                yield Accumulate(a, other, f"{other}_at")

        def others(count: int, step: str) -> For:
            return For("int", "k", LoopBound.of(1), LoopBound.of(count), tuple(take(step)))

        writer.add(*publish(), Barrier())
        if rest < shape.down:
            few = all_below(("down", LoopBound.of(rest)))
            loop = others(shape.down // rest, f"{own} + k * {rest * across}")
            writer.add(replace(few, body=(loop, *publish())), Barrier())
        column = "" if across == 1 else "across"
        for a in folded:
            writer.assign(a.name, f"{a.name}_local[{column or 0}]")
            if a.is_position:
                writer.assign(f"{a.name}_at", f"{a.name}_at_local[{column or 0}]")
        writer.add(others(rest, f"{column} + k * {across}" if column else "k"))
