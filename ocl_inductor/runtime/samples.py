"""Notices writes to parameters that leave no trace in PyTorch's version counters.

``p.data.mul_(2)`` and ``p.detach().numpy()[...] = 0`` write memory without a new version. Reading
all parameters at each call would cost as much as using them, so some words of each are compared:
writes to whole tensors (clamping, averaging, re-initialising) are noticed, those to a few rows of
a large tensor may not be (docs/troubleshooting.md says what to do then).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
from collections.abc import Iterable

import numpy as np
import torch

#: Words compared in each tensor: all of a bias or scale of a small layer, a sample of the others.
WORDS_PER_TENSOR = 32
_WORD = 4


class Samples:
    """Some words of a set of tensors, read with one gather from this process's memory.

    The tensors must be alive, and at the same addresses, whenever ``changed`` is called.
    """

    def __init__(self, regions: Iterable[tuple[torch.Tensor, int]]) -> None:
        """``regions``: tensors and the number of bytes that each reaches over."""
        parts = [_words(tensor.data_ptr(), nbytes) for tensor, nbytes in regions]
        words = np.concatenate([np.empty(0, np.int64), *parts])
        base = int(words.min()) if len(words) else 0
        reach = int(words.max()) - base + 1 if len(words) else 0
        self.memory = np.ctypeslib.as_array((ctypes.c_uint32 * reach).from_address(base * _WORD))
        self.positions = words - base
        self.values = self._look()

    def changed(self) -> bool:
        """Whether any word differs from the last look; looks at all of them."""
        values = self._look()
        if values == self.values:
            return False
        self.values = values
        return True

    def _look(self) -> bytes:
        return self.memory.take(self.positions).tobytes() if len(self.positions) else b""


def _words(address: int, nbytes: int) -> np.ndarray:
    """Numbers of the words to compare, counted from address 0."""
    first = -(-address // _WORD)
    count = (address + nbytes) // _WORD - first
    if address == 0 or count <= 0:  # a storage that was resized to nothing
        return np.empty(0, np.int64)
    return first + _chosen(count)


@functools.cache
def _chosen(count: int) -> np.ndarray:
    """One word somewhere in each equal part of ``count`` words; all of a few."""
    if count <= WORDS_PER_TENSOR:
        return np.arange(count)
    choose = random.Random(count)
    edges = [count * k // WORDS_PER_TENSOR for k in range(WORDS_PER_TENSOR + 1)]
    return np.array([choose.randrange(a, b) for a, b in itertools.pairwise(edges)])
