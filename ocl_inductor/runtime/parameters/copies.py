"""Detects changed memory by comparing it with a copy: for many small ranges, all at once."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import string_at

import numpy as np

_WORD = 8


class Copies:
    """Copies of ranges of memory, which must be readable at each check."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        """``ranges``: addresses; all of their bytes are compared at each check."""
        words = [np.empty(0, np.int64)]
        #: Address and bytes of parts that are not whole words.
        self.rest: list[tuple[int, int]] = []
        for start, end in ranges:
            first, last = -(-start // _WORD), end // _WORD
            if first >= last:
                self.rest.append((start, end - start))
                continue
            words.append(np.arange(first, last))
            edges = ((start, first * _WORD), (last * _WORD, end))
            self.rest += [(a, b - a) for a, b in edges if a < b]
        numbers = np.concatenate(words)
        base = int(numbers.min()) if len(numbers) else 0
        reach = int(numbers.max()) + 1 - base if len(numbers) else 0
        # This array spans all ranges; only their words are ever read.
        window = (ctypes.c_uint64 * reach).from_address(base * _WORD)
        self.memory = np.ctypeslib.as_array(window)
        self.positions = numbers - base
        self.words = b""
        self.bytes: list[bytes] = []

    def take(self) -> None:
        """From now on, changes are those since this moment."""
        self.changed()

    def changed(self) -> bool:
        """Whether any byte differs from the last check; compares all of them."""
        words = self.memory.take(self.positions).tobytes() if len(self.positions) else b""
        rest = [string_at(a, n) for a, n in self.rest]
        changed = words != self.words or rest != self.bytes
        self.words, self.bytes = words, rest
        return changed
