"""Variables in which a kernel records an out-of-range index, to report it at its end.

A branch at each index, with a write to memory in it, would keep the compiler from moving loads
across iterations of a loop: scattering a million numbers took a fifth longer. Instructions on
registers do not: compared without a sign, an index outside is greater than all that are inside, so
a minimum bounds it and a maximum keeps the greatest, which is looked at when the loops are over.

Vectors of 64-bit indices into a dimension that 32 bits count are narrowed first, as reading through
them needs: without AVX-512 a 64-bit minimum takes four instructions, for half as many lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ocl_inductor.codegen.statements.indexing import Literals, index_text
from ocl_inductor.codegen.tree.nodes import CallStatement, If, Statement, Variable
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Check, Expr
from ocl_inductor.plan.plan import FAULT


@dataclass(frozen=True, slots=True)
class _Record:
    """The variables of one check at one width of register.

    ``index``: the type of indices as data gives them; ``place``: in which they are compared;
    ``result``: in which they are used.
    """

    index: str
    place: str
    result: str
    #: How far below 0 an index may be: the extent, or "0".
    below: str
    extent: str
    #: The argument that holds the check's number.
    check: str
    outside: str
    #: The variable for indices that 32 bits do not hold, where they are narrowed; else empty.
    beyond: str
    #: The variable that says that there was an index, where the extent may be 0: then each is
    #: outside, the least too. Else empty.
    used: str

    def checked(self, position: str) -> str:
        text = position
        if self.beyond:
            text = f"ocl_narrowed_index_{self.index}({text}, {self.below}, &{self.beyond})"
        if self.below != "0":
            text = f"ocl_wrapped_index_{self.place}({text}, {self.extent})"
        text = f"ocl_bounded_index_{self.place}({text}, {self.extent}, &{self.outside})"
        if self.result != self.place:
            text = f"({self.result}){text}"
        return f"({self.used} = 1, {text})" if self.used else text

    def declarations(self) -> list[Statement]:
        beyond = [Variable(self.index, self.beyond, "0")] if self.beyond else []
        used = [Variable("int", self.used, "0")] if self.used else []
        return [Variable(f"u{self.place}", self.outside, "0"), *beyond, *used]

    def report(self) -> Statement:
        bound = f"{self.extent}, {FAULT}, {self.check}"
        if self.beyond:
            arguments = f"{self.outside}, {self.beyond}, {self.below}, {bound}"
            call = CallStatement(f"ocl_report_narrowed_{self.index}({arguments})")
        else:
            call = CallStatement(f"ocl_report_outside_{self.place}({self.outside}, {bound})")
        return If(self.used, (call,)) if self.used else call


class Outside:
    """The records of one kernel, one for each check and type of register."""

    def __init__(self, literals: Literals) -> None:
        self.literals = literals
        self.records: dict[tuple[int, str, str], _Record] = {}

    def checked(
        self, check: Check, given: torch.dtype, width: int, position: str, extent: Expr
    ) -> str:
        """The position in ``extent``'s dtype, or a valid one for one that is out of range.

        ``given``: the position's dtype, int32 or int64.
        """
        index, result = register_type(given, width), register_type(extent.dtype, width)
        key = check.number, index, result
        if key not in self.records:
            size, static = self._size(extent), extent.op == "const"
            place = index if width == 1 else result
            self.records[key] = self._record(check, index, place, result, size, static)
        return self.records[key].checked(position)

    def checked_row(self, check: Check, position: str, extent: str) -> str:
        """The same for a single 64-bit position, with the text of its extent."""
        key = check.number, "long", "long"
        if key not in self.records:
            static = extent.isdigit()
            self.records[key] = self._record(check, "long", "long", "long", extent, static)
        return self.records[key].checked(position)

    def _record(
        self, check: Check, index: str, place: str, result: str, extent: str, static: bool
    ) -> _Record:
        n = len(self.records)
        return _Record(
            index,
            place,
            result,
            below=extent if check.wraps else "0",
            extent=extent,
            check=self.literals.check(check),
            outside=f"outside{n}",
            beyond="" if index == place else f"beyond{n}",
            used="" if static else f"used{n}",
        )

    def _size(self, extent: Expr) -> str:
        """An extent's text, which holds at the end of a kernel as well: sizes are its arguments."""
        while extent.op == "cast":
            extent = extent.args[0]
        assert extent.op in ("const", "index"), f"an extent is no {extent.op}"
        return f"({index_text(extent.payload, {}, self.literals)})"

    def declarations(self) -> list[Statement]:
        """At the beginning: nothing is out of range."""
        return [s for record in self.records.values() for s in record.declarations()]

    def reports(self) -> list[Statement]:
        """At the end: report the recorded indices."""
        return [record.report() for record in self.records.values()]
