"""A pass: long sums are blocked, because the error of a running sum grows with its length.

A chain of n additions has an error of up to n roundings, about sqrt(n) of them on random data; two
levels of sqrt(n) additions each keep that to sqrt(2 sqrt(n)) at the price of one addition a block
(Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993), section 3).
Eager's cascade summation does the same with four levels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sympy

from ocl_inductor.codegen.statements.accumulators import declared
from ocl_inductor.codegen.tree.nodes import (
    Accumulate,
    Accumulator,
    For,
    Let,
    LoopBound,
    Statement,
)
from ocl_inductor.codegen.tree.rewrite import accumulators_in, rewritten, with_accumulators
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


def in_blocks(
    statements: Sequence[Statement], pieces: Pieces, sums: Collection[Accumulator]
) -> list[Statement]:
    """The statements; the loop of ``pieces`` adds up blocks, and then those to ``sums``."""
    parts = {a: dataclasses.replace(a, name=f"{a.name}_part") for a in sums}

    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, For) and s.variable == pieces.variable.name:
            here = {a: parts[a] for a in accumulators_in(s.body) if a in parts}
            return [_blocks(s, pieces.rounds, here)] if here else [s]
        return [s]

    return rewritten(statements, rule)


def _blocks(loop: For, rounds: int, parts: dict[Accumulator, Accumulator]) -> For:
    """``loop`` inside of one over blocks of so many rounds, whose sums go to ``parts``."""
    first, last = f"{loop.variable}_first", f"{loop.variable}_last"
    step, start = rounds * loop.step, LoopBound.named(first)
    text = f"min({first} + {step}, ({loop.kind})({loop.end.text}))"
    reached = sympy.Min(start.value + step, loop.end.value)
    begin = start
    assert loop.begin is not None
    if loop.begin.value != 0:
        begin = LoopBound(f"{first} + {loop.begin.text}", start.value + loop.begin.value)
    inner = dataclasses.replace(
        loop, begin=begin, end=LoopBound.named(last), body=with_accumulators(loop.body, parts)
    )
    body = (
        Let(loop.kind, last, text, index=reached),
        *(s for part in parts.values() for s in declared(part)),
        inner,
        *(Accumulate(a, part.name) for a, part in parts.items()),
    )
    return For(loop.kind, first, LoopBound.of(0), loop.end, body, step=step)
