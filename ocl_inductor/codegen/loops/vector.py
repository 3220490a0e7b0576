"""Loop groups in the ``vector`` profile: explicit lanes, consecutive tiles for each work-item."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import Lanes, choose_lanes
from ocl_inductor.codegen.loops.tiles import TiledKernel
from ocl_inductor.codegen.passes.blocked_sum import Pieces
from ocl_inductor.codegen.passes.interleave import Interleave, find_interleave
from ocl_inductor.codegen.passes.multi_accumulator import side_by_side, ways
from ocl_inductor.codegen.passes.row_cache import MAX_STASHED_ROW, shared_between
from ocl_inductor.codegen.passes.streams import Prefetches, streams
from ocl_inductor.codegen.statements.accumulators import declared, folded_lanes
from ocl_inductor.codegen.statements.emitted import RowCache, Scope
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.tree.nodes import (
    Accumulator,
    Array,
    BlockStatement,
    For,
    LoopBound,
    Variable,
)
from ocl_inductor.codegen.work import ceil_div, divide, usual_size
from ocl_inductor.ir.dtypes import HALF_TYPES, register_type
from ocl_inductor.ir.expr import Expr, indices
from ocl_inductor.ir.index import Size, coefficients, is_static, prod
from ocl_inductor.schedule.groups import Member


class Ending(enum.Enum):
    """How the elements after the last whole vector (the remainder) are computed."""

    EXACT = "none are left"
    OVERLAP = "a last vector that overlaps the one before"
    SCALAR = "one at a time"


class VectorKernel(TiledKernel):
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
        prefetches: Prefetches = {}
        if v is not None and not self.inner_vars:
            prefetches = self.streams([self.group.members], [*others, v], columns)[0]
        with (
            self.tile_loop(writer, work, others, blocks),
            self.prefetching(writer, prefetches),
        ):
            if v is None:
                self.outer_point_levels(writer)
            else:
                begin, end = LoopBound.of(0), self.bound(columns)
                if blocks != 1:
                    begin, end = self._block_of_columns(writer, blocks, tile_columns, end)
                self.columns(writer, lanes, begin, end, interleave)
        return self.finish(writer, work)

    def _block_of_columns(
        self, writer: Emitter, blocks: Size, width: int | None, columns: LoopBound
    ) -> tuple[LoopBound, LoopBound]:
        """The columns that a tile has of its row, ``width`` of them or what is left."""
        assert width is not None
        tile, begin, end = (LoopBound.named(name) for name in ("tile", "begin", "end"))
        block = ModularIndexing(tile.value, 1, blocks)
        text = f"(tile % ({self.text(blocks)})) * {width}"
        writer.let(self.index, "begin", text, block * width)
        text = f"min(begin + {width}, ({self.index})({columns.text}))"
        writer.let(self.index, "end", text, sympy.Min(begin.value + width, columns.value))
        return begin, end

    def columns(
        self,
        writer: Emitter,
        lanes: Lanes,
        begin: LoopBound,
        end: LoopBound,
        interleave: Interleave | None,
    ) -> None:
        """Whole vectors along the lane variable, then the remainder."""
        v, width = lanes.var, lanes.width
        assert v is not None
        ending = self.ending(lanes, overlap=begin.value == 0)
        head = self.vector_loop(writer, v, width, begin, end, ending)
        point = partial(self.outer_point_levels if interleave is None else interleave.store, writer)
        with writer.inside(head, frozenset([v])):
            point()
        writer.results.clear()
        writer.in_memory.clear()
        if ending is Ending.OVERLAP:
            with self._overlapping(writer, v, width, end):
                point()
        elif ending is Ending.SCALAR:
            tail = self.emitter(Lanes(None, 1, False), frozenset())
            tail.scopes = [uniform_scope(s) for s in writer.scopes]
            with tail.inside(For(self.index, str(v), None, end), frozenset([v])):
                if interleave is None:
                    self.outer_point_levels(tail)
                else:
                    count = LoopBound.of(interleave.count)
                    loop = self.plain_loop(interleave.var, LoopBound.of(0), count)
                    with tail.inside(loop, frozenset([interleave.var])):
                        self.outer_point_levels(tail)

    @contextmanager
    def _overlapping(
        self, writer: Emitter, v: sympy.Symbol, width: int, end: LoopBound
    ) -> Iterator[None]:
        """The last vector of a row, whose first lanes were in the one before it too."""
        with writer.inside(BlockStatement((), "overlaps the loop"), frozenset([v])):
            writer.let(self.index, str(v), f"{end.text} - {width}", end.value - width)
            writer.aligned = False
            yield
            writer.aligned = True

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
        self,
        writer: Emitter,
        v: sympy.Symbol,
        width: int,
        begin: LoopBound,
        end: LoopBound,
        ending: Ending,
    ) -> For:
        """Head of the loop over whole vectors; a scalar remainder continues where it stops."""
        if ending is Ending.SCALAR:
            writer.add(Variable(self.index, str(v), begin.text, begin.value))
            return For(self.index, str(v), None, end, step=width, room=width)
        room = 1 if ending is Ending.EXACT else width
        return For(self.index, str(v), begin, end, step=width, room=room)

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
                with self.prefetching(writer, prefetches[level]):
                    self.sweep(writer, lanes, level)
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
            writer.add(*declared(a))
        *before, v = self.inner_vars
        vectors = ceil_div(self.size_of[v], lanes.width)
        pieces = self.pieces(members, [*((u, self.size_of[u]) for u in before), (v, vectors)])
        with (
            self.several_ways(writer, lanes, members, pieces),
            self.blocking(writer, pieces, members, wide),
        ):
            self._sweep_nest(writer, lanes, before, members, wide, narrow, ending)
        for m in members:
            if m.kind == "reduction":
                a, s = wide[m.buffer.name], narrow[m.buffer.name]
                writer.add(*folded_lanes(a, s, self.device, f"{a.name}_lane"))
                self.finish_reduction(writer, m, s)

    def several_ways(
        self, writer: Emitter, lanes: Lanes, members: Sequence[Member], pieces: Pieces | None
    ) -> AbstractContextManager[None]:
        """Loops over vectors that are written inside have several accumulators, if that pays
        (multi_accumulator.py)."""
        v, width = lanes.var, lanes.width
        assert v is not None
        size = self.size_of[v]
        in_pieces = pieces is not None and pieces.variable == v
        vectors = pieces.rounds if pieces is not None and in_pieces else size // width
        count = ways(members, self.members, writer, vectors)
        if count == 1:
            return nullcontext()
        whole = is_static(size) and int(size) % (count * width) == 0
        exact = whole and int(vectors) % count == 0
        return writer.rewriting(
            partial(side_by_side, name=v.name, width=width, count=count, exact=exact)
        )

    def _sweep_nest(
        self,
        writer: Emitter,
        lanes: Lanes,
        before: Sequence[sympy.Symbol],
        members: Sequence[Member],
        wide: Mapping[str, Accumulator],
        narrow: Mapping[str, Accumulator],
        ending: Ending,
    ) -> None:
        if before:
            u, *rest = before
            loop = self.plain_loop(u, LoopBound.of(0), self.bound(self.size_of[u]))
            with writer.inside(loop, frozenset([u])):
                self._sweep_nest(writer, lanes, rest, members, wide, narrow, ending)
            return
        v, width = lanes.var, lanes.width
        assert v is not None
        end = self.bound(self.size_of[v])
        # The loop over a scalar remainder declares its own variable.
        whole = Ending.OVERLAP if ending is Ending.SCALAR else ending
        head = self.vector_loop(writer, v, width, LoopBound.of(0), end, whole)
        with writer.inside(head, frozenset([v])):
            for m in members:
                self.visit(writer, m, wide)
        if ending is Ending.OVERLAP:
            done = width - int(self.size_of[v]) % width
            with self._overlapping(writer, v, width, end):
                for m in members:
                    self.visit(writer, m, wide, done)
        elif ending is Ending.SCALAR:
            tail = self.emitter(Lanes(None, 1, False), frozenset())
            tail.scopes = [uniform_scope(s) for s in writer.scopes]
            tail.results = dict(writer.results)
            tail.in_memory = set(writer.in_memory)
            tail.row_cache = writer.row_cache
            text = f"({end.text})" if " " in end.text else end.text  # a size may be a sum
            done_value = FloorDiv(end.value, width) * width
            begin = LoopBound(f"{text} / {width} * {width}", done_value)
            with tail.inside(self.plain_loop(v, begin, end), frozenset([v])):
                for m in members:
                    self.visit(tail, m, narrow)

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
            extent = int(self.size_of[variable])
            writer.add(Array(register_type(dtype, 1), name, (extent,)))
            writer.row_cache[e] = RowCache(name, dtype, str(variable))

    def streams(
        self,
        levels: Sequence[Sequence[Member]],
        variables: Sequence[sympy.Symbol],
        row: Size,
        kept: Sequence[Expr] = (),
    ) -> Sequence[Prefetches]:
        """What to prefetch in each sweep (passes/streams.py)."""
        if not self.device.prefetch:
            return [{} for _ in levels]
        caches = self.device.caches
        return streams(levels, self.members, variables, self.size_of, row, usual_size, caches, kept)


def uniform_scope(scope: Scope) -> Scope:
    """The scope for scalar code: the same statements, and only values equal in all lanes."""
    known = {e: t for e, t in scope.known.items() if not t.lanes}
    return Scope(scope.variables, scope.statements, known, scope.guarded)
