"""AOTAutograd's cache with its files elsewhere, for some compilations.

The cache is private API of PyTorch. Its two functions that touch files are replaced, once in a
process, by ones that first ask whether the entries of this compilation are kept here; other
backends see no change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class PlanKeeper(Protocol):
    """Where the entries of one compilation are."""

    def write(self, key: str, content: bytes) -> None:
        """Keep a new entry."""

    def candidates(self, key: str) -> Iterator[tuple[object, bytes]]:
        """Entries that may fit, each as an object and as it was read."""


@functools.cache
def redirect(cache: Any, keeper: Callable[[], PlanKeeper | None]) -> None:
    """``cache``: PyTorch's class AOTAutogradCache. ``keeper``: of the compilation that runs."""
    write = cache._write_to_local_cache
    candidates = cache.iterate_over_candidates

    def write_to_local_cache(key: str, content: bytes) -> None:
        kept = keeper()
        keep = write if kept is None else kept.write
        keep(key, content)

    def iterate_over_candidates(
        cls: Any, local: bool, remote_cache: Any, key: str
    ) -> Iterator[tuple[Any, bytes, bool]]:
        kept = keeper()
        if kept is None:
            yield from candidates(local, remote_cache, key)
            return
        for entry, content in kept.candidates(key):
            yield entry, content, True

    cache._write_to_local_cache = staticmethod(write_to_local_cache)
    cache.iterate_over_candidates = classmethod(iterate_over_candidates)
