"""Long sums are blocked, because the error of a running sum grows with its length.

A chain of n additions has an error of up to n roundings, about sqrt(n) of them on random data; two
levels of sqrt(n) additions each keep that to sqrt(2 sqrt(n)) at the price of one addition a block
(Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993), section 3).
Eager's cascade summation does the same with four levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from ocl_inductor.ir.index import Size, is_static

#: Chains up to this many additions are not split.
MAX_CHAIN = 128
#: Additions of a block where sizes are symbolic.
DYNAMIC_CHAIN = 128


@dataclass(frozen=True, slots=True)
class Pieces:
    """The loop of a sweep to split, and its iterations in each block."""

    variable: sympy.Symbol
    rounds: int


def cut(loops: Sequence[tuple[sympy.Symbol, Size]]) -> Pieces | None:
    """Where to split nested loops (outermost first, with their trip counts); None: short enough.

    Blocks are powers of two near the square root of all additions, so that kernels of similar
    sizes have the same text.
    """
    if not loops:
        return None
    if not all(is_static(trips) for _, trips in loops):
        return Pieces(loops[-1][0], DYNAMIC_CHAIN)
    total = math.prod(int(trips) for _, trips in loops)
    if total <= MAX_CHAIN:
        return None
    chain = 1 << round(math.log2(total) / 2)
    inner = 1
    for variable, trips in reversed(loops):
        if inner * int(trips) > chain:
            return Pieces(variable, max(1, chain // inner))
        inner *= int(trips)
    return None
