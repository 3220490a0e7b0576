"""Loop groups in the ``vector`` profile: explicit lanes, consecutive tiles for each work-item."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import sympy
import torch

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import Lanes, choose_lanes
from ocl_inductor.codegen.loops.base import LoopKernel
from ocl_inductor.codegen.passes.blocked_sum import Pieces
from ocl_inductor.codegen.passes.interleave import Interleave, find_interleave
from ocl_inductor.codegen.passes.multi_accumulator import ways
from ocl_inductor.codegen.passes.row_cache import MAX_STASHED_ROW, shared_between
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.printers.nontemporal import FENCE
from ocl_inductor.codegen.statements.accumulators import Accumulator
from ocl_inductor.codegen.statements.emitted import RowCache, Scope
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.statements.prefetch import Prefetches, streams
from ocl_inductor.codegen.work import MAX_TILE_COLUMNS, Work, ceil_div, divide, usual_size
from ocl_inductor.ir.dtypes import HALF_TYPES, register_type
from ocl_inductor.ir.expr import Expr, indices
from ocl_inductor.ir.index import Size, coefficients, is_static, prod
from ocl_inductor.schedule.groups import Member


class Ending(enum.Enum):
    """How the elements after the last whole vector (the remainder) are computed."""

    EXACT = "none are left"
    OVERLAP = "a last vector that overlaps the one before"
    SCALAR = "one at a time"


class VectorKernel(LoopKernel):
    """Profile ``vector``: work-groups of one, explicit lanes, consecutive tiles a work-item."""

    def build(self) -> KernelSource:
        lanes = choose_lanes(
            self.group, self.outer_vars, self.inner_vars, self.size_of, self.device.vector_width
        )
        if lanes.over_sweep:
            return self.rows(lanes)
        return self.points(lanes)

    # -- lanes over outer points -------------------------------------------------------------

    def points(self, lanes: Lanes) -> KernelSource:
        v = lanes.var
        interleave = None
        if not self.in_place and not self.once_only:
            interleave = find_interleave(self.group, lanes, self.outer_vars, self.size_of)
        together = {v} if interleave is None else {v, interleave.var}
        others = [u for u in self.outer_vars if u not in together]
        columns: Size = self.size_of[v] if v is not None else 1
        sweep = usual_size(prod(list(self.group.inner))) if interleave is None else interleave.count
        tile_columns = self.tile_columns(columns, lanes.width, sweep)
        blocks = ceil_div(columns, tile_columns) if tile_columns is not None else 1
        rows = prod([self.size_of[u] for u in others])
        run = usual_size(columns) if tile_columns is None else tile_columns
        work = divide(prod((rows, blocks)), run * sweep, self.device.compute_units)
        writer = self.emitter(lanes, frozenset())
        if v is not None and not self.inner_vars:
            writer.prefetches = self.streams([self.group.members], [*others, v], columns)[0]
        with self.tile_loop(writer, work, others, blocks):
            if v is None:
                self.outer_point_levels(writer)
            else:
                begin, end = "0", self.text(columns)
                if blocks != 1:
                    block = f"(tile % ({self.text(blocks)}))"
                    writer.line(f"const {self.index} begin = {block} * {tile_columns};")
                    writer.line(
                        f"const {self.index} end = min(begin + {tile_columns}, "
                        f"({self.index})({end}));"
                    )
                    begin, end = "begin", "end"
                self.columns(writer, lanes, begin, end, interleave)
        return self.finish(writer, work)

    def columns(
        self, writer: Emitter, lanes: Lanes, begin: str, end: str, interleave: Interleave | None
    ) -> None:
        """Whole vectors along the lane variable, then the remainder."""
        v, width = lanes.var, lanes.width
        assert v is not None
        ending = self.ending(lanes) if begin == "0" else self.ending(lanes, overlap=False)
        head = self.vector_loop(writer, v, width, begin, end, ending)
        point = partial(self.outer_point_levels if interleave is None else interleave.store, writer)
        with writer.block(head, frozenset([v])):
            point()
        writer.results.clear()
        writer.in_memory.clear()
        if ending is Ending.OVERLAP:
            with writer.block("", frozenset([v])):
                writer.line(f"const {self.index} {v} = {end} - {width};  // overlaps the loop")
                writer.aligned = False
                point()
                writer.aligned = True
        elif ending is Ending.SCALAR:
            tail = self.emitter(Lanes(None, 1, False), frozenset())
            tail.scopes = [uniform_scope(s) for s in writer.scopes]
            with tail.block(f"for (; {v} < {end}; ++{v})", frozenset([v])):
                if interleave is None:
                    self.outer_point_levels(tail)
                else:
                    loop = self.plain_loop(interleave.var, "0", str(interleave.count))
                    with tail.block(loop, frozenset([interleave.var])):
                        self.outer_point_levels(tail)

    def ending(self, lanes: Lanes, overlap: bool = True) -> Ending:
        """How the elements after the last whole vector are computed.

        A last vector that overlaps the one before computes some points twice, to the same values,
        which is cheaper than up to ``width - 1`` scalar iterations. Not where indices divide the
        lane variable (their vectors must start at multiples of the width), nor where sizes are
        symbolic, nor where points accumulate into memory, nor in place, where the second pass would
        read what the first wrote (that is done once for a row, where lanes run over the sweep).
        """
        assert lanes.var is not None
        size = self.size_of[lanes.var]
        if is_static(size) and int(size) % lanes.width == 0:
            return Ending.EXACT
        again = overlap and not self.once_only and is_static(size)
        if not again or (self.in_place and not lanes.over_sweep):
            return Ending.SCALAR
        for m in self.group.members:
            accesses = [*indices(m.body), m.store]
            for e in m.store_indirect:
                accesses += list(indices(e))
            for e in accesses:
                affine = coefficients(e, [lanes.var])
                if affine is None or lanes.var in affine[1].free_symbols:
                    return Ending.SCALAR
        return Ending.OVERLAP

    def vector_loop(
        self, writer: Emitter, v: sympy.Symbol, width: int, begin: str, end: str, ending: Ending
    ) -> str:
        """Head of the loop over whole vectors; a scalar remainder continues where it stops."""
        if ending is Ending.EXACT:
            return f"for ({self.index} {v} = {begin}; {v} < {end}; {v} += {width})"
        if ending is Ending.OVERLAP:
            return f"for ({self.index} {v} = {begin}; {v} <= {end} - {width}; {v} += {width})"
        writer.line(f"{self.index} {v} = {begin};")
        return f"for (; {v} + {width} <= {end}; {v} += {width})"

    def tile_columns(self, columns: Size, width: int, sweep: int) -> int | None:
        """Columns of a tile when one row is too long for one work-item, else None."""
        if is_static(columns) and int(columns) * sweep <= MAX_TILE_COLUMNS:
            return None
        if is_static(columns):
            # Split long runs so that every compute unit gets several tiles.
            pieces = self.device.compute_units * 8
            even = -(-int(columns) // pieces)
            tile = min(max(even, 512 // max(1, min(sweep, 512))), MAX_TILE_COLUMNS)
        else:
            tile = 4096 // max(1, min(sweep, 4096 // width))
        return max(width, -(-tile // width) * width)

    # -- lanes over the sweep ----------------------------------------------------------------

    def rows(self, lanes: Lanes) -> KernelSource:
        sweep = usual_size(prod(list(self.group.inner)))
        work = divide(
            prod([self.size_of[u] for u in self.outer_vars]), sweep, self.device.compute_units
        )
        writer = self.emitter(lanes, frozenset())
        swept = [self.swept(level) for level in range(self.levels)]
        kept = self.kept_values(swept)
        prefetches = self.streams(swept, self.variables, prod(list(self.group.inner)), kept)
        with self.tile_loop(writer, work, self.outer_vars):
            self.declare_row_cache(writer, kept)
            for level in range(self.levels):
                self.begin_level(writer, level)
                writer.prefetches = prefetches[level]
                self.sweep(writer, lanes, level)
                writer.prefetches = {}
                self.end_level(writer, level)
        return self.finish(writer, work)

    def sweep(self, writer: Emitter, lanes: Lanes, level: int) -> None:
        members = self.swept(level)
        if not members:
            return
        ending = self.ending(lanes)
        wide = self.accumulators(level, lanes.width, "")
        # Lanes are folded into scalar accumulators, which a scalar remainder uses too.
        narrow = self.accumulators(level, 1, "_s")
        for a in [*wide.values(), *narrow.values()]:
            for line in a.declare():
                writer.line(line)
        *before, v = self.inner_vars
        vectors = ceil_div(self.size_of[v], lanes.width)
        pieces = self.pieces(members, [*((u, self.size_of[u]) for u in before), (v, vectors)])
        self._sweep_nest(writer, lanes, before, members, wide, narrow, ending, pieces)
        scalar = EmitTarget(1, self.device)
        for m in members:
            if m.kind == "reduction":
                a, s = wide[m.buffer.name], narrow[m.buffer.name]
                for line in a.fold_lanes(s, scalar, f"{a.name}_lane"):
                    writer.line(line)
                self.finish_reduction(writer, m, s)

    def _sweep_nest(
        self,
        writer: Emitter,
        lanes: Lanes,
        before: Sequence[sympy.Symbol],
        members: Sequence[Member],
        wide: Mapping[str, Accumulator],
        narrow: Mapping[str, Accumulator],
        ending: Ending,
        pieces: Pieces | None,
    ) -> None:
        if before:
            u, *rest = before
            end = self.text(self.size_of[u])
            if pieces is not None and u == pieces.variable:
                with self.piece_loop(writer, u, pieces.rounds, end, members, wide) as piece:
                    first, last, parts = piece
                    with writer.block(self.plain_loop(u, first, last), frozenset([u])):
                        self._sweep_nest(writer, lanes, rest, members, parts, narrow, ending, None)
                return
            with writer.block(self.plain_loop(u, "0", end), frozenset([u])):
                self._sweep_nest(writer, lanes, rest, members, wide, narrow, ending, pieces)
            return
        v, width = lanes.var, lanes.width
        assert v is not None
        end = self.text(self.size_of[v])
        vectors = self.size_of[v] // width
        if pieces is None:
            self._vectors(writer, lanes, ("0", end), vectors, ending, members, wide)
        else:
            step = pieces.rounds * width
            with self.piece_loop(writer, v, step, end, members, wide) as piece:
                first, last, parts = piece
                span = first, last
                self._vectors(writer, lanes, span, pieces.rounds, ending, members, parts)
        if ending is Ending.OVERLAP:
            with writer.block("", frozenset([v])):
                writer.line(f"const {self.index} {v} = {end} - {width};  // overlaps the loop")
                done = width - int(self.size_of[v]) % width
                writer.aligned = False
                for m in members:
                    self.visit(writer, m, wide, done)
                writer.aligned = True
        elif ending is Ending.SCALAR:
            tail = self.emitter(Lanes(None, 1, False), frozenset())
            tail.scopes = [uniform_scope(s) for s in writer.scopes]
            tail.results = dict(writer.results)
            tail.in_memory = set(writer.in_memory)
            tail.row_cache = writer.row_cache
            whole = f"({end})" if " " in end else end  # a size may be a sum
            begin = f"{whole} / {width} * {width}"
            with tail.block(self.plain_loop(v, begin, end), frozenset([v])):
                for m in members:
                    self.visit(tail, m, narrow)

    def _vectors(
        self,
        writer: Emitter,
        lanes: Lanes,
        span: tuple[str, str],
        vectors: Size,
        ending: Ending,
        members: Sequence[Member],
        accumulators: Mapping[str, Accumulator],
    ) -> None:
        """The whole vectors between two positions of the sweep, about ``vectors`` of them."""
        v = lanes.var
        assert v is not None
        if ending is Ending.SCALAR:  # the scalar loop declares its own variable
            ending = Ending.OVERLAP
        count = ways(members, self.members, writer, vectors)
        if count > 1:
            stride, size = count * lanes.width, self.size_of[v]
            exact = is_static(size) and int(size) % stride == 0 and int(vectors) % count == 0
            self._side_by_side(writer, lanes, span, count, members, accumulators)
            if exact:
                return
            begin, end = span
            done = f"({end}) / {stride} * {stride}"
            if begin != "0":
                done = f"{begin} + ({end} - {begin}) / {stride} * {stride}"
            span, ending = (done, end), Ending.OVERLAP
        head = self.vector_loop(writer, v, lanes.width, *span, ending)
        with writer.block(head, frozenset([v])):
            for m in members:
                self.visit(writer, m, accumulators)

    def _side_by_side(
        self,
        writer: Emitter,
        lanes: Lanes,
        span: tuple[str, str],
        count: int,
        members: Sequence[Member],
        accumulators: Mapping[str, Accumulator],
    ) -> None:
        """``count`` vectors an iteration, into separate accumulators (multi_accumulator.py)."""
        v, width = lanes.var, lanes.width
        assert v is not None
        copies = [
            {n: dataclasses.replace(a, name=f"{a.name}_way{k}") for n, a in accumulators.items()}
            for k in range(1, count)
        ]
        for copy in copies:
            for a in copy.values():
                for line in a.declare():
                    writer.line(line)
        run, (begin, end), stride = f"{v}_run", span, count * width
        head = f"for ({self.index} {run} = {begin}; {run} <= {end} - {stride}; {run} += {stride})"
        with writer.block(head):
            for k, taken in enumerate([accumulators, *copies]):
                with writer.block("", frozenset([v])):
                    writer.line(f"const {self.index} {v} = {run} + {k * width};")
                    for m in members:
                        self.visit(writer, m, taken)
        target = EmitTarget(width, self.device)
        for copy in copies:
            for n, a in copy.items():
                for line in accumulators[n].take(target, a.name):
                    writer.line(line)

    def kept_values(self, swept: Sequence[Sequence[Member]]) -> list[Expr]:
        """Values that several sweeps of a row share instead of recomputing them (row_cache.py).

        The softmax's exponentials, for instance: the sum's sweep computes them, the division's
        sweep reads them back from a private array that stays in the first-level cache.
        """
        if len(self.inner_vars) != 1 or not is_static(self.size_of[self.inner_vars[0]]):
            return []
        if int(self.size_of[self.inner_vars[0]]) > MAX_STASHED_ROW:
            return []
        return shared_between(swept, self.members, self.group.stored, set(self.inner_vars))

    def declare_row_cache(self, writer: Emitter, kept: Sequence[Expr]) -> None:
        for number, e in enumerate(kept):
            (variable,) = self.inner_vars
            name = f"kept{number}"
            dtype = torch.float32 if e.dtype in HALF_TYPES else e.dtype
            writer.line(f"{register_type(dtype, 1)} {name}[{int(self.size_of[variable])}];")
            writer.row_cache[e] = RowCache(name, dtype, str(variable))

    def streams(
        self,
        levels: Sequence[Sequence[Member]],
        variables: Sequence[sympy.Symbol],
        row: Size,
        kept: Sequence[Expr] = (),
    ) -> Sequence[Prefetches]:
        """What to prefetch in each sweep (prefetch.py)."""
        if not self.device.prefetch:
            return [{} for _ in levels]
        caches = self.device.caches
        return streams(levels, self.members, variables, self.size_of, row, usual_size, caches, kept)

    # -- shared ------------------------------------------------------------------------------

    @contextmanager
    def tile_loop(
        self, writer: Emitter, work: Work, rows: Sequence[sympy.Symbol], blocks: Size = 1
    ) -> Iterator[None]:
        """Loop over the tiles of a work-item: points of ``rows``, each in ``blocks`` parts.

        Two divisions take longer than a short row does, so coordinates are computed by division
        once and then incremented.
        """
        kind, variables = self.index, frozenset(rows)
        if work.per_item == 1:
            writer.line(f"const {kind} tile = get_global_id(0);")
            with writer.block("", variables):
                self._rows_by_division(writer, rows, blocks)
                yield
            return
        per_item, tiles = self.text(work.per_item), self.text(work.tiles)
        # min() is ambiguous for operands of two types.
        plain = kind == "int"
        step = per_item if plain and per_item.isdigit() else f"({kind})({per_item})"
        end = tiles if plain and tiles.isdigit() else f"({kind})({tiles})"
        writer.line(f"const {kind} first = ({kind})get_global_id(0) * {step};")
        writer.line(f"const {kind} last = min(first + {step}, {end});")
        # A symbolic size may be 0, so there is no division by it outside of the loop.
        counted = (
            blocks == 1 and len(rows) > 1 and all(is_static(self.size_of[v]) for v in rows[1:])
        )
        if counted:
            self.decompose(writer, "first", rows, constant=False)
        with writer.block(f"for ({kind} tile = first; tile < last; ++tile)", variables):
            if not counted:
                self._rows_by_division(writer, rows, blocks)
            yield
            if counted:
                for line in self._count_on(rows):
                    writer.line(line)

    def _rows_by_division(
        self, writer: Emitter, rows: Sequence[sympy.Symbol], blocks: Size
    ) -> None:
        row = "tile"
        if blocks != 1:
            writer.line(f"const {self.index} row = tile / ({self.text(blocks)});")
            row = "row"
        self.decompose(writer, row, rows)

    def _count_on(self, rows: Sequence[sympy.Symbol]) -> list[str]:
        """The coordinates of the next point in row-major order."""
        outermost, *rest = rows
        lines = [f"++{outermost};"]
        for v in rest:
            head = f"if (++{v} == {self.text(self.size_of[v])}) {{"
            lines = [head, f"    {v} = 0;", *(f"    {line}" for line in lines), "}"]
        return lines

    def finish(self, writer: Emitter, work: Work) -> KernelSource:
        attribute = "__attribute__((reqd_work_group_size(1, 1, 1)))"
        lines = writer.scopes[0].lines
        if self.streamed & self.group.stored:
            lines = [*lines, FENCE]
        return self.kernel(self.frame(lines, attribute), (work.items,), (1,))


def uniform_scope(scope: Scope) -> Scope:
    """The scope for scalar code: the same lines, and only values equal in all lanes."""
    known = {e: t for e, t in scope.known.items() if not t.lanes}
    return Scope(scope.variables, scope.lines, known, scope.guarded)
