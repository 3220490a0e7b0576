"""Parameter lists of kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.codegen.statements.indexing import Literals
from ocl_inductor.ir.dtypes import MEMORY_TYPE
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.plan.kernel_code import KernelParameter
from ocl_inductor.plan.plan import FAULT

#: Above this many elements a 32-bit index could overflow.
MAX_INT_ELEMENTS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KernelParameters:
    """Buffers a kernel reads and writes, its size arguments and its literals, in argument order."""

    buffers: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    written: frozenset[str]
    scalars: tuple[tuple[str, sympy.Expr], ...]
    literals: tuple[tuple[str, int], ...] = ()
    #: Buffers that share memory with another argument.
    shared: frozenset[str] = frozenset()

    def with_fault(self) -> KernelParameters:
        """The same with the argument that records out-of-range indices."""
        return dataclasses.replace(
            self,
            buffers=(*self.buffers, FAULT),
            dtypes=(*self.dtypes, torch.int32),
            written=self.written | {FAULT},
        )

    def with_literals(self, literals: Literals) -> KernelParameters:
        """The same with the literals that the finished text uses."""
        return dataclasses.replace(
            self,
            scalars=(*self.scalars, *((name, e) for e, name in literals.sizes.items())),
            literals=tuple(
                (name, n) for n, name in (*literals.names.items(), *literals.checks.items())
            ),
        )

    def pointers(self) -> dict[str, str]:
        """What buffers are called in the kernel, so that equal kernels have equal text."""
        return {name: f"arg{n}" for n, name in enumerate(self.buffers) if name != FAULT}

    def declared(self) -> tuple[KernelParameter, ...]:
        found, pointers = [], self.pointers()
        for name, dtype in zip(self.buffers, self.dtypes, strict=True):
            const = "" if name in self.written else "const "
            restrict = "" if name in self.shared else "restrict "
            kind = f"__global {const}{MEMORY_TYPE[dtype]} *{restrict}"
            found.append(KernelParameter(kind, pointers.get(name, name)))
        found += [KernelParameter("const long ", name) for name, _ in self.scalars]
        found += [KernelParameter("const int ", name) for name, _ in self.literals]
        return tuple(found)


def index_type(storages: Sequence[Size], sizes: Sequence[Size]) -> str:
    """``int`` where every buffer and extent is known to fit, else ``long``."""
    for s in [*storages, *sizes]:
        if not is_static(s) or int(s) >= MAX_INT_ELEMENTS:
            return "long"
    return "int"
