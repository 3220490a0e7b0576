"""The common part of all kernels of a loop group: parameters, members by level, plain sweep loops.

Three shapes of kernel serve every group:

* *lanes over outer points*: a vector of neighbouring outer points, each with its own sweep (pure
  pointwise groups, reductions over a strided dimension, scans, scatters). At width 1 and one
  work-item a point, the first ``simt`` shape.
* *lanes over the sweep*: one row at a time, vectors along its innermost dimension, lanes folded at
  the end (``vector`` profile; vector.py).
* *work-group over the sweep*: one row a work-group, folded through local memory (loops.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import sympy
import torch

from ocl_inductor.codegen.loops.frame import LoopFrame
from ocl_inductor.codegen.passes.blocked_sum import Pieces, cut, in_blocks
from ocl_inductor.codegen.printers.conversions import literal, widen_by_parts
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.printers.primitives import emit_load, emit_primitive
from ocl_inductor.codegen.statements.accumulators import COMBINE, declared, identity
from ocl_inductor.codegen.statements.emitted import HeldResult, Text
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.statements.stores import store_elements, unrounded
from ocl_inductor.codegen.tree.nodes import (
    Accumulate,
    Accumulator,
    Elements,
    For,
    If,
    IndexComparison,
    LoopBound,
    Store,
)
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Expr, const, where
from ocl_inductor.ir.index import (
    Size,
    is_static,
    may_be_empty,
    prod,
)
from ocl_inductor.schedule.groups import Member


class LoopKernel(LoopFrame):
    """The common part of all shapes: members by level, and sweeps in plain loops."""

    def begin_level(self, writer: Emitter, level: int) -> None:
        """Evaluate the members that need no sweep."""
        for m in self.group.members:
            if m.level == level and m.row:
                self.evaluate_row(writer, m)

    def evaluate_row(self, writer: Emitter, m: Member) -> None:
        """One member that needs no sweep."""
        value = writer.emit(m.body)
        writer.results[m.buffer.name] = HeldResult(value, m.buffer.dtype)
        if m.buffer.name in self.group.stored:
            with self.once_a_point(writer):
                writer.store(m.buffer.name, m.buffer.dtype, m.store, value)

    def once_a_point(self, writer: Emitter) -> AbstractContextManager[None]:
        """Guards stores of values that every work-item of a point has."""
        return nullcontext()

    def swept(self, level: int) -> list[Member]:
        """Members of a level that are evaluated at every inner point."""
        return [
            m
            for m in self.group.members
            if m.level == level
            and not m.row
            and (m.kind != "pointwise" or m.buffer.name in self.group.stored)
        ]

    def visit(
        self, writer: Emitter, m: Member, accumulators: Mapping[str, Accumulator], done: int = 0
    ) -> None:
        """One point (or vector of points) of a member; the first ``done`` lanes were seen before.

        Visiting an element twice only matters to sums and products: stores repeat the same value,
        and min, max, any and all are idempotent.
        """
        name, dtype = m.buffer.name, m.buffer.dtype
        if m.kind == "pointwise":
            value = writer.emit(unrounded(m.body))
            writer.store(name, dtype, m.store, value)
        elif m.kind == "scatter":
            self._scatter(writer, m)
        else:
            accumulator = accumulators[name]
            wide = accumulator.width > 1
            if m.how == "sum" and not done and writer.is_product(m.body):
                value_text = writer.product(m.body, wide)
            else:
                value_text = writer.vectorised(m.body) if wide else writer.emit(m.body).text
            if done and m.how in ("sum", "prod"):
                value_text = self.without_lanes(writer, m, value_text, done)
            position = ""
            if accumulator.is_position:
                where = m.store_indirect[0]
                position = writer.vectorised(where) if wide else writer.emit(where).text
                kind = accumulator.position_type
                position = f"convert_{kind}{accumulator.width if wide else ''}({position})"
                named = writer.fresh("p")
                full = kind if not wide else f"{kind}{accumulator.width}"
                writer.let(full, named, position)
                position = named
            writer.add(Accumulate(accumulator, value_text, position))
            if m.kind == "scan":
                running = self.as_stored(m, accumulator.name, accumulator.width)
                writer.store(name, dtype, m.store, Text(running, wide))

    def _visit_in_place(self, writer: Emitter, members: Sequence[Member]) -> None:
        """One point of pointwise members, all read before the first of them writes."""
        values = [writer.emit(unrounded(m.body)) for m in members]
        for m, value in zip(members, values, strict=True):
            writer.store(m.buffer.name, m.buffer.dtype, m.store, value)

    def without_lanes(self, writer: Emitter, m: Member, value: str, done: int) -> str:
        """``value`` with its first lanes replaced by the neutral element."""
        width = writer.width
        flags = ", ".join("0" if lane < done else "-1" for lane in range(width))
        neutral = literal(identity(m.how, m.body.dtype), m.body.dtype, width)
        node = where(const(True, torch.bool), m.body, m.body)
        mask = f"({register_type(torch.bool, width)})({flags})"
        return emit_primitive(writer.target, node, [mask, value, neutral])

    def _scatter(self, writer: Emitter, m: Member) -> None:
        value = writer.emit(m.body)
        names: dict[sympy.Symbol, str] = {}
        lanes = False
        if m.store_indirect:
            probe = Expr("load", m.store_indirect, m.buffer.dtype, None)
            names, lanes = writer.indirect(probe)
        if may_be_empty(prod(m.buffer.size)):
            total = self.bound(prod(m.buffer.size))
            some = IndexComparison(total.value, ">", sympy.Integer(0))
            with writer.inside(If(f"{total.text} > 0", (), (some,))):
                self._update(writer, m, value, names, lanes)
        else:
            self._update(writer, m, value, names, lanes)

    def _update(
        self,
        writer: Emitter,
        m: Member,
        value: Text,
        names: Mapping[sympy.Symbol, str],
        lanes: bool,
    ) -> None:
        """Store a scatter's value at one point, or at a vector of them."""
        name, dtype = m.buffer.name, m.buffer.dtype
        if m.how == "set":
            store_elements(writer, name, dtype, m.store, names, lanes, value)
            return
        split = writer.lanes_of(m.store)
        assert split is not None and not lanes, "lanes are neighbours (lanes.py)"
        target, kind = writer.target, register_type(dtype, writer.width)
        place, old = writer.fresh("i"), writer.fresh()
        first = None if names else split[0]
        read = Elements(name, first, dtype.itemsize, writer.width)
        writer.let(self.index, place, writer.index_text(split[0], names))
        writer.let(kind, old, emit_load(target, dtype, writer.pointer(name), place), reads=(read,))
        leaf = Expr("load", (), dtype, None)
        node = Expr(COMBINE[m.how], (leaf, leaf), dtype)
        new = emit_primitive(target, node, [old, writer.broadcast(value, dtype)])
        writer.add(Store(name, dtype, place, new, first, writer.width))

    def accumulators(self, level: int, width: int, suffix: str) -> dict[str, Accumulator]:
        swept_elements = prod(list(self.group.inner))
        small = is_static(swept_elements) and int(swept_elements) < 2**31 - 1
        return {
            m.buffer.name: Accumulator(
                f"acc_{self.named(m.buffer.name)}{suffix}",
                m.how,
                m.body.dtype,
                width,
                "int" if small else "long",
            )
            for m in self.swept(level)
            if m.kind in ("reduction", "scan")
        }

    def beginning(self, writer: Emitter, m: Member, width: int) -> str:
        """The initial value of a scan, as a register of ``width`` lanes."""
        if not m.store_indirect:
            return literal(identity(m.how, m.body.dtype), m.body.dtype, width)
        (e,) = m.store_indirect
        return writer.vectorised(e) if width > 1 else writer.emit(e).text

    def as_stored(self, m: Member, text: str, width: int) -> str:
        """An accumulated value, converted from the body's type to the buffer's."""
        if m.body.dtype == m.buffer.dtype:
            return text
        leaf = Expr("load", (), m.body.dtype, None)
        node = Expr("cast", (leaf,), m.buffer.dtype)
        return emit_primitive(EmitTarget(width, self.device), node, [text])

    def finish_reduction(self, writer: Emitter, m: Member, a: Accumulator) -> None:
        """Name the result and store it if it is used outside this kernel."""
        kind = register_type(m.buffer.dtype, a.width)
        if a.is_position and a.position_type == "int" and self.device.widens_by_parts:
            text = widen_by_parts(a.result, torch.int32, a.width)
        elif a.is_position:
            text = f"convert_{kind}({a.result})"
        else:
            text = self.as_stored(m, a.result, a.width)
        name = writer.fresh("r")
        writer.let(kind, name, text)
        result = Text(name, a.width > 1)
        writer.results[m.buffer.name] = HeldResult(result, m.buffer.dtype)
        if m.buffer.name in self.group.stored:
            with self.once_a_point(writer):
                writer.store(m.buffer.name, m.buffer.dtype, m.store, result)

    def end_level(self, writer: Emitter, level: int) -> None:
        for m in self.swept(level):
            if m.kind == "pointwise":
                writer.in_memory.add(m.buffer.name)
        for e, row_cache in writer.row_cache.items():
            if row_cache.filled:
                writer.row_cache[e] = dataclasses.replace(row_cache, ready=True)

    # -- long sums -------------------------------------------------------------------------

    def pieces(
        self, members: Sequence[Member], loops: Sequence[tuple[sympy.Symbol, Size]]
    ) -> Pieces | None:
        """How to block the sweep for its sums (blocked_sum.py)."""
        return cut(loops) if any(map(_in_pieces, members)) else None

    def blocking(
        self,
        writer: Emitter,
        pieces: Pieces | None,
        members: Sequence[Member],
        accumulators: Mapping[str, Accumulator],
    ) -> AbstractContextManager[None]:
        """Sums of loops that are written inside are blocked."""
        if pieces is None:
            return nullcontext()
        sums = [accumulators[m.buffer.name] for m in members if _in_pieces(m)]
        return writer.rewriting(partial(in_blocks, pieces=pieces, sums=sums))

    # -- sweeps in plain loops -------------------------------------------------------------

    def outer_point_levels(self, writer: Emitter) -> None:
        """All levels at one outer point (or vector of them), the sweep in plain loops."""
        width = writer.width
        for level in range(self.levels):
            self.begin_level(writer, level)
            members = self.swept(level)
            if not members:
                continue
            accumulators = self.accumulators(level, width, "")
            for a in accumulators.values():
                writer.add(*declared(a))
            for m in members:
                if m.kind == "scan" and m.store_indirect:
                    beginning = self.beginning(writer, m, width)
                    writer.assign(accumulators[m.buffer.name].name, beginning)
            pieces = self.pieces(members, [(v, self.size_of[v]) for v in self.inner_vars])
            with self.blocking(writer, pieces, members, accumulators):
                self._nest(writer, self.inner_vars, members, accumulators)
            for m in members:
                if m.kind == "reduction":
                    self.finish_reduction(writer, m, accumulators[m.buffer.name])
            self.end_level(writer, level)

    def _nest(
        self,
        writer: Emitter,
        variables: Sequence[sympy.Symbol],
        members: Sequence[Member],
        accumulators: Mapping[str, Accumulator],
    ) -> None:
        if not variables:
            if self.in_place and not self.inner_vars:
                self._visit_in_place(writer, members)
                return
            for m in members:
                self.visit(writer, m, accumulators)
            return
        v, *rest = variables
        end = self.bound(self.size_of[v])
        pragma = "" if rest else self.pragma(writer, members)
        with writer.inside(self.plain_loop(v, LoopBound.of(0), end, pragma), frozenset([v])):
            self._nest(writer, rest, members, accumulators)

    def pragma(self, writer: Emitter, members: Sequence[Member]) -> str:
        """Stops the compiler from vectorising a loop's sums, where it gets them wrong."""
        sums = any(m.kind == "reduction" and m.how == "sum" for m in members)
        wrong = sums and writer.width == 1 and not self.device.vectorizes_sums
        return "#pragma clang loop vectorize(disable)" if wrong else ""

    def plain_loop(
        self, v: sympy.Symbol, begin: LoopBound, end: LoopBound, pragma: str = ""
    ) -> For:
        return For(self.index, str(v), begin, end, pragma=pragma)


def _in_pieces(m: Member) -> bool:
    return m.kind == "reduction" and m.how == "sum" and m.body.dtype.is_floating_point
