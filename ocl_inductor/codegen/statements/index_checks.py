"""Variables in which a kernel records an out-of-range index, to report it at its end.

A branch at each index, with a write to memory in it, would keep the compiler from moving loads
across iterations of a loop: scattering a million numbers took a fifth longer. Two selects on
registers do not.
"""

from __future__ import annotations

import torch

from ocl_inductor.codegen.statements.indexing import Literals
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Check
from ocl_inductor.plan.plan import FAULT


class Outside:
    """The variables of one kernel, one for each check and width of register."""

    def __init__(self, literals: Literals) -> None:
        self.literals = literals
        self.variables: dict[tuple[int, str], tuple[str, str]] = {}

    def checked(
        self, check: Check, dtype: torch.dtype, width: int, position: str, extent: str
    ) -> str:
        """The position, or 0 for one that is out of range, which is recorded."""
        kind = register_type(dtype, width)
        new = f"outside{len(self.variables)}", self.literals.check(check)
        name, _ = self.variables.setdefault((check.number, kind), new)
        below = extent if check.wraps else "0"
        return f"ocl_checked_index_{kind}({position}, {below}, {extent}, &{name})"

    def declarations(self) -> list[str]:
        """At the beginning: nothing is out of range."""
        return [
            f"{kind} {name} = ocl_no_index_{kind}();"
            for (_, kind), (name, _) in self.variables.items()
        ]

    def reports(self) -> list[str]:
        """At the end: report the recorded index."""
        return [
            f"ocl_report_index_{kind}({name}, {FAULT}, {check});"
            for (_, kind), (name, check) in self.variables.items()
        ]
