"""What may be read only where a condition holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

import sympy
import torch

from ocl_inductor.codegen.statements.emitted import HeldResult, Text
from ocl_inductor.codegen.statements.selects import selected
from ocl_inductor.codegen.statements.statements import StatementWriter
from ocl_inductor.codegen.tree.nodes import Array, CallStatement, For, If, LoopBound, Variable
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Access, Expr, walk
from ocl_inductor.schedule.groups import Member

#: Whether an access certainly stays inside of its buffer where a variable goes in steps, and others
#: by ones.
InBounds: TypeAlias = Callable[[Access, sympy.Symbol | None, int], bool]


class MaskedWriter(StatementWriter, ABC):
    """Writes ``masked`` values: a branch, a selection, or one lane after the other."""

    members: Mapping[str, Member]
    results: dict[str, HeldResult]
    in_memory: set[str]
    in_bounds: InBounds

    @abstractmethod
    def emit(self, e: Expr) -> Text:
        """Text of ``e``, computed at most once in each scope it is visible from."""

    @abstractmethod
    def vectorised(self, e: Expr) -> str:
        """Text of ``e`` as a full register."""

    @abstractmethod
    def free(self, e: Expr) -> frozenset[sympy.Symbol]:
        """Loop variables the value depends on."""

    @abstractmethod
    def lane(self, counter: str) -> MaskedWriter:
        """A scalar writer for lane ``counter`` of this one's vector."""

    def emit_masked(self, e: Expr) -> Text:
        """``masked(condition, value, other)``: reads of ``value`` happen only where it holds, or
        where they certainly stay inside of their buffers."""
        condition, value, other = e.args
        if condition.op == "const":
            return self.emit(value if condition.payload else other)
        test = self.emit(condition)
        if not any(n.op == "load" for n in walk(value)):
            return self.emit(Expr("where", (condition, value, other), e.dtype))
        if not test.lanes:
            return self._branch(e, test.text)
        if self._alternates(condition) and all(self._reads_anywhere(x) for x in (value, other)):
            return self.emit(selected(condition, value, other))
        return self._lanes(e, test.text)

    def _alternates(self, condition: Expr) -> bool:
        """Whether lanes differ in every vector, and not in one at a border alone."""
        return any(
            n.op == "index" and self.lanes_of(n.payload) is None and self.offsets_of(n.payload)
            for n in walk(condition)
        )

    def _reads_anywhere(self, value: Expr) -> bool:
        """Whether no read of ``value`` leaves its buffer, wherever it is evaluated."""
        return all(self._reads_inside(e) for e in walk(value))

    def _reads_inside(self, e: Expr) -> bool:
        if e.op != "load" or e.payload.buffer in self.results:
            return e.op != "checked_index"
        member = self.members.get(e.payload.buffer)
        if member is not None and e.payload.buffer not in self.in_memory:
            return self._reads_anywhere(member.body)
        return not e.args and self.in_bounds(e.payload, None, 1)

    def _branch(self, e: Expr, test: str) -> Text:
        """All lanes agree: a plain branch around the reads."""
        _, value, other = e.args
        lanes = self.vector_var is not None and (
            self.vector_var in self.free(value) or self.vector_var in self.free(other)
        )
        kind = register_type(e.dtype, self.width if lanes else 1)
        name = self.fresh("m")
        start = self.emit(other)
        start_text = self.broadcast(start, other.dtype) if lanes else start.text
        self.add(Variable(kind, name, start_text))
        with self.inside(If(test, ()), guarded=True):
            inside = self.emit(value)
            text = self.broadcast(inside, value.dtype) if lanes else inside.text
            self.assign(name, text)
        result = Text(name, lanes)
        self.scopes[-1].known[e] = result
        return result

    def _lanes(self, e: Expr, test: str) -> Text:
        """Lanes differ: whole vectors where all lanes hold, else one lane after the other."""
        _, value, other = e.args
        name, array, width = self.fresh("m"), self.fresh("lane"), self.width
        self.add(Variable(register_type(e.dtype, width), name, self.vectorised(other)))
        with self.inside(If(f"all({test})", ()), guarded=True):
            self.assign(name, self.vectorised(value))
        with self.inside(If(f"any({test})", (), otherwise=True), guarded=True):
            self.add(Array(register_type(e.dtype, 1), array, (width,)))
            self.add(CallStatement(f"vstore{width}({name}, 0, {array})"))
            counter = self.fresh("l")
            with self.inside(
                For("int", counter, LoopBound.of(0), LoopBound.of(width)), guarded=True
            ):
                lane = self.lane(counter)
                lane_test = lane.emit(e.args[0]).text
                with lane.inside(If(lane_test, ()), guarded=True):
                    text = lane.emit(value).text
                    if e.dtype is torch.bool:
                        text = f"-({text})"  # a lane's true is -1
                    lane.assign(f"{array}[{counter}]", text)
                self.add(*lane.scopes[-1].statements)
            self.assign(name, f"vload{width}(0, {array})")
        result = Text(name, True)
        self.scopes[-1].known[e] = result
        return result
