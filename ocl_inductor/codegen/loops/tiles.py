"""The tiles of a work-item of the ``vector`` profile: rows, or blocks of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import sympy
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.loops.base import LoopKernel
from ocl_inductor.codegen.passes.nontemporal import streamed
from ocl_inductor.codegen.passes.prefetch import prefetched
from ocl_inductor.codegen.passes.streams import Prefetches
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.tree.nodes import (
    BlockStatement,
    CountOn,
    For,
    LoopBound,
    item_id,
    variable,
)
from ocl_inductor.codegen.work import MAX_TILE_COLUMNS, Work
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.plan.kernel_code import item


class TiledKernel(LoopKernel):
    """Loop groups whose work-items go over consecutive tiles."""

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
            writer.let(kind, "tile", item(0), item_id(0))
            with writer.inside(BlockStatement(()), variables):
                self._rows_by_division(writer, rows, blocks)
                yield
            return
        per_item, tiles = self.text(work.per_item), self.text(work.tiles)
        # min() is ambiguous for operands of two types.
        plain = kind == "int"
        step = per_item if plain and per_item.isdigit() else f"({kind})({per_item})"
        end = tiles if plain and tiles.isdigit() else f"({kind})({tiles})"
        first, last = LoopBound.named("first"), LoopBound.named("last")
        writer.let(kind, "first", f"({kind}){item(0)} * {step}", item_id(0) * work.per_item)
        reached = sympy.Min(first.value + work.per_item, sympy.sympify(work.tiles))
        writer.let(kind, "last", f"min(first + {step}, {end})", reached)
        # A symbolic size may be 0, so there is no division by it outside of the loop.
        counted = (
            blocks == 1 and len(rows) > 1 and all(is_static(self.size_of[v]) for v in rows[1:])
        )
        if counted:
            self.decompose(writer, "first", rows, constant=False)
        with writer.inside(For(kind, "tile", first, last), variables):
            if not counted:
                self._rows_by_division(writer, rows, blocks)
            yield
            if counted:
                extents = tuple(self.bound(self.size_of[v]) for v in rows[1:])
                writer.add(CountOn(tuple(map(str, rows)), extents))

    def _rows_by_division(
        self, writer: Emitter, rows: Sequence[sympy.Symbol], blocks: Size
    ) -> None:
        row = "tile"
        if blocks != 1:
            value = FloorDiv(variable("tile"), blocks)
            writer.let(self.index, "row", f"tile / ({self.text(blocks)})", value)
            row = "row"
        self.decompose(writer, row, rows)

    def prefetching(self, writer: Emitter, distances: Prefetches) -> AbstractContextManager[None]:
        """Loops that are written inside prefetch what they read ``distances`` later."""
        if not distances:
            return nullcontext()
        line = self.device.caches.line
        return writer.rewriting(
            partial(
                prefetched,
                distances=distances,
                pointers=self.pointers,
                text=self.text,
                line=line,
            )
        )

    def finish(self, writer: Emitter, work: Work) -> KernelSource:
        statements = streamed(writer.scopes[0].statements, self.streamed & self.group.stored)
        return self.kernel(statements, (work.items,), (1,), items=1)
