"""Parameter lists of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.dtypes import MEMORY_TYPE
from ocl_inductor.ir.index import Size, is_static

#: Above this many elements a 32-bit index could overflow.
MAX_INT_ELEMENTS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Parameters:
    """Buffers a kernel reads and writes, in argument order, and its size arguments."""

    buffers: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    written: frozenset[str]
    scalars: tuple[tuple[str, sympy.Expr], ...]

    def text(self) -> str:
        parts = []
        for name, dtype in zip(self.buffers, self.dtypes, strict=True):
            const = "" if name in self.written else "const "
            parts.append(f"__global {const}{MEMORY_TYPE[dtype]} *restrict {name}")
        parts += [f"const long {name}" for name, _ in self.scalars]
        return ", ".join(parts)


def index_type(storages: Sequence[Size], sizes: Sequence[Size]) -> str:
    """``int`` where every buffer and extent is known to fit, else ``long``."""
    for s in [*storages, *sizes]:
        if not is_static(s) or int(s) >= MAX_INT_ELEMENTS:
            return "long"
    return "int"
