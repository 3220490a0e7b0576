"""Detects writes to parameters that do not change PyTorch's version counters.

``p.data.mul_(2)``, ``p.detach().numpy()[...] = 0`` and many others write memory without a new
version. How such a write is detected (docs/memory.md says what that guarantees):

- ranges of memory up to 16 KiB are compared with a copy;
- larger ones are watched by the system, page by page (patches/process/written_pages.py);
- memory that other processes may write is checked completely, by checksums (checksums.py);
- where the system does not watch, a share of the checksums is checked at each call, in rotation.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from ocl_inductor.patches.process.written_pages import PageRange, written_pages
from ocl_inductor.runtime.parameters.checksums import Checksums
from ocl_inductor.runtime.parameters.copies import Copies
from ocl_inductor.runtime.parameters.mappings import Stamp, behind, mappings, stamp
from ocl_inductor.runtime.parameters.optimiser_steps import storage_address, tell_of_steps

#: Bytes up to which a range is compared with a copy: that takes no longer than the system call.
COPIED_BYTES = 16 << 10
#: Checks of unwatched memory until all of it was compared.
LOOKS = 100
#: Most calls for which memory that is written all the time is not checked.
_LONGEST_REST = 64
_WORD = 8


@dataclass(frozen=True, slots=True)
class _Means:
    """How each part of the memory is watched."""

    copies: Copies = field(default_factory=lambda: Copies(()))
    watched: Sequence[PageRange] = ()
    files: Sequence[str] = ()
    sums: Sequence[Checksums] = ()


class Watch:
    """Whether any of some tensors was written, judged by their memory.

    The tensors must be alive, and at the same addresses, whenever ``changed`` is called.
    """

    def __init__(self, regions: Iterable[tuple[torch.Tensor, int]], exact: bool = False) -> None:
        """``regions``: tensors and the number of bytes that each reaches over. ``exact``: compare
        all that the system does not watch at each call.
        """
        regions = [(x, n) for x, n in regions if n > 0 and x.data_ptr() != 0]
        self.ranges = _joined((x.data_ptr(), x.data_ptr() + n) for x, n in regions)
        self.exact = exact
        self.means = None if self.ranges else _Means()
        self.stamps: list[Stamp] = []
        #: Whether the state of the memory when dependents were last computed is known.
        self.known = not self.ranges
        self.written = False
        self.in_a_row = 0
        self.rest = 0
        self.storages = frozenset(storage_address(x) for x, _ in regions)
        if self.ranges:
            tell_of_steps(self)

    def forget(self) -> None:
        """All that depends on the tensors is being recomputed, and their contents were not checked.

        The next check reports a change, and only then their state is recorded again: tensors that
        are written before each call are never checked.
        """
        self.known = not self.ranges

    def note_write(self) -> None:
        """Make the next check report a change."""
        self.written = True

    def changed(self) -> bool:
        """Whether there was, or may have been, a change since the last check."""
        if self.written:
            self.written = False
            self.forget()
            return True
        if self.rest:
            self.rest -= 1
            return True
        if not self.known:
            self.take()
            return True
        if not self._differs():
            self.in_a_row = 0
            return False
        self.in_a_row += 1
        if self.in_a_row > 2:  # protecting and comparing would be wasted
            self.rest = min(1 << self.in_a_row, _LONGEST_REST)
            self.forget()
        return True

    def take(self) -> None:
        """From now on, changes are those since this moment."""
        try:
            self._take(self.means or _means(self.ranges, self.exact))
        except OSError:  # other memory than before
            self._take(_means(self.ranges, self.exact))
        self.known = True

    def _take(self, means: _Means) -> None:
        self.means = means
        means.copies.take()
        for pages in means.watched:
            pages.written()
        self.stamps = list(map(stamp, means.files))
        for sums in means.sums:
            sums.take()

    def _differs(self) -> bool:
        means = self.means
        assert means is not None
        differs = means.copies.changed()
        try:
            for pages in means.watched:
                differs |= pages.written()
        except OSError:  # other memory than before
            self.means = None
            self.forget()
            return True
        if means.files:
            stamps = list(map(stamp, means.files))
            differs |= stamps != self.stamps
            self.stamps = stamps
        for sums in means.sums:
            if sums.changed():
                sums.take()
                differs = True
        return differs


def _means(ranges: Iterable[tuple[int, int]], exact: bool) -> _Means:
    """How to watch ranges of memory."""
    ranges = list(ranges)
    large = [(start, end) for start, end in ranges if end - start > COPIED_BYTES]
    copied = [r for r in ranges if r not in large]
    watched: list[PageRange] = []
    in_turn: list[tuple[int, int]] = []
    whole: list[tuple[int, int]] = []
    files: dict[str, None] = {}
    foreign = mappings() if large else ()
    for start, end in large:
        found = behind(start, end, foreign)
        files |= {m.path: None for m in found if not m.shared}
        shared = any(m.shared for m in found)
        pages = None if shared else _pages(start, end)
        if pages is not None:
            watched.append(pages)
            copied += [(start, pages.start), (pages.end, end)]
        # The pages of a file change, too, when other processes write the file.
        if pages is None or found:
            first, last = -(-start // _WORD) * _WORD, end // _WORD * _WORD
            (whole if shared or exact else in_turn).append((first, last))
            copied += [(start, first), (last, end)]
    sums = [Checksums(r, looks) for r, looks in ((whole, 1), (in_turn, LOOKS)) if r]
    return _Means(Copies(r for r in copied if r[0] < r[1]), watched, list(files), sums)


def _pages(start: int, end: int) -> PageRange | None:
    """The whole pages of a range, if the system watches them."""
    pages, page = written_pages(), mmap.PAGESIZE
    first, last = -(-start // page) * page, end // page * page
    if pages is None or first >= last:
        return None
    with contextlib.suppress(OSError):
        return pages.watch(first, last)
    return None


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes, in order, as few ranges."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
