"""Drops unmodified file-backed pages from resident memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

_MADV_DONTNEED = 4


def drop_pages(ranges: Iterable[tuple[int, int]]) -> None:
    """Drop the pages of each range of addresses; they are read from the file when used again."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in ranges:
        advise(start, end - start, _MADV_DONTNEED)
