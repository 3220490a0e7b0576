"""Notices writes to parameters that leave no trace in PyTorch's version counters.

``p.data.mul_(2)`` and ``p.detach().numpy()[...] = 0`` write memory without a new version. Reading
all parameters at each call would cost as much as using them, so some words of each are compared:
writes to whole tensors (clamping, averaging, re-initialising) are noticed, those to a few rows of
a large tensor may not be (docs/troubleshooting.md says what to do then).
"""

from __future__ import annotations

import ctypes
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
        addresses = [a for tensor, nbytes in regions for a in _words(tensor.data_ptr(), nbytes)]
        base = min(addresses, default=0)
        words = (max(addresses) - base) // _WORD + 1 if addresses else 0
        self.memory = np.ctypeslib.as_array((ctypes.c_uint32 * words).from_address(base))
        self.positions = (np.array(addresses, np.int64) - base) // _WORD
        self.values = self._look()

    def changed(self) -> bool:
        """Whether any word differs from the last look; looks at all of them."""
        values = self._look()
        if values == self.values:
            return False
        self.values = values
        return True

    def forget(self) -> None:
        """Make the next look find a change."""
        self.values = None

    def _look(self) -> bytes | None:
        return self.memory.take(self.positions).tobytes() if len(self.positions) else b""


def _words(address: int, nbytes: int) -> list[int]:
    """Addresses of the words to compare: one somewhere in each equal part of the region."""
    if address == 0:
        return []  # a storage that was resized to nothing
    first = -(-address // _WORD)
    count = (address + nbytes) // _WORD - first
    if count <= WORDS_PER_TENSOR:
        return [_WORD * (first + k) for k in range(count)]
    choose = random.Random(nbytes)
    edges = [count * k // WORDS_PER_TENSOR for k in range(WORDS_PER_TENSOR + 1)]
    return [_WORD * (first + choose.randrange(a, b)) for a, b in itertools.pairwise(edges)]
