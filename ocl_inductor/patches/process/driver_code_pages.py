"""Pages of files that nothing was written to, dropped from this process's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

_MADV_DONTNEED = 4


def drop_pages(ranges: Iterable[tuple[int, int]]) -> None:
    """Drop the pages from each start to its end; what is used again is read from the file."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in ranges:
        advise(start, end - start, _MADV_DONTNEED)
