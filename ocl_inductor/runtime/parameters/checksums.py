"""Detects changed memory by checksums of pieces of it, without a copy of it.

Checking all pieces reads all of the memory. Checking a share of them each time, in rotation, costs
a share of that, and detects a change after at most as many checks as there are shares.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Iterable

import numpy as np

#: Most bytes of a piece: fits into a second-level cache for the two passes over it.
PIECE = 64 << 10
_LEAST_PIECE = 4 << 10
_WORD = 8
_HALF = np.uint64(32)

Sum = tuple[int, int]


class Checksums:
    """Checksums of ranges of memory, which must be readable at each check."""

    def __init__(self, ranges: Iterable[tuple[int, int]], looks: int) -> None:
        """``ranges``: addresses, multiples of 8. ``looks``: checks that cover all the memory."""
        ranges = list(ranges)
        total = sum(end - start for start, end in ranges)
        nbytes = min(PIECE, max(_LEAST_PIECE, total // looks // _LEAST_PIECE * _LEAST_PIECE))
        self.pieces = [p for start, end in ranges for p in _pieces(start, end, nbytes)]
        self.share = -(-len(self.pieces) // looks)
        self.sums: list[Sum] = []
        self.next = 0

    def take(self) -> None:
        """From now on, changes are those since this moment."""
        self.sums = [_sum(p) for p in self.pieces]

    def changed(self) -> bool:
        """Look at the next pieces."""
        pieces, sums = self.pieces, self.sums
        for _ in range(self.share):
            n = self.next
            self.next = n + 1 if n + 1 < len(pieces) else 0
            if _sum(pieces[n]) != sums[n]:
                return True
        return False


def _pieces(start: int, end: int, nbytes: int) -> list[np.ndarray]:
    edges = [*range(start, end, nbytes), end]
    return [
        np.ctypeslib.as_array((ctypes.c_uint64 * ((b - a) // _WORD)).from_address(a))
        for a, b in itertools.pairwise(edges)
    ]


@functools.cache
def _factors() -> tuple[np.ndarray, np.ndarray]:
    """Random odd numbers, for the words of a piece and for their upper halves."""
    generator = np.random.default_rng()  # separate: the program's random numbers do not change
    numbers = generator.integers(0, 1 << 64, (2, PIECE // _WORD), dtype=np.uint64)
    return numbers[0] | np.uint64(1), numbers[1] | np.uint64(1)


def _sum(piece: np.ndarray) -> Sum:
    """Sums, modulo 2^64, of words times factors.

    One changed word always changes the sum, as factors are odd; several cancel out for one in 2^32
    choices of factors. The upper halves are summed separately once more, because there the sign
    bits of two negated numbers would always cancel out.
    """
    n = len(piece)
    whole, upper = _factors()
    return int(np.einsum("i,i", piece, whole[:n])), int(np.einsum("i,i", piece >> _HALF, upper[:n]))
