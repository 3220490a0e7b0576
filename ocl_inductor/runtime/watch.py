"""Notices writes to parameters that leave no trace in PyTorch's version counters.

``p.data.mul_(2)``, ``p.detach().numpy()[...] = 0`` and many others write memory without a new
version. How such a write is noticed (docs/memory.md says what that guarantees):

- ranges of memory up to 16 KiB are compared with a copy;
- larger ones are watched by the system, page by page (written_pages.py);
- what other processes may write is compared whole, by checksums (checksums.py);
- where the system does not watch, checksums go round, a share of them at each call.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from ctypes import string_at
from dataclasses import dataclass, field

import torch

from ocl_inductor.runtime.checksums import Checksums
from ocl_inductor.runtime.mappings import behind, mappings, stamp
from ocl_inductor.runtime.optimiser_steps import storage_address, tell_of_steps
from ocl_inductor.runtime.written_pages import PageRange, written_pages

#: Bytes up to which a range is compared with a copy: that takes no longer than to ask the system.
COPIED_BYTES = 16 << 10
#: Looks at what nobody watches until all of it was seen.
LOOKS = 100
#: Most calls for which memory that is written all the time is not looked at.
_LONGEST_REST = 64
_WORD = 8


@dataclass(slots=True)
class _Means:
    """How each part of the memory is watched."""

    copied: list[tuple[int, int]] = field(default_factory=list)
    watched: list[PageRange] = field(default_factory=list)
    round: list[tuple[int, int]] = field(default_factory=list)
    whole: list[tuple[int, int]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)


class Watch:
    """Whether any of some tensors was written, as far as memory tells.

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
        self.copies: list[bytes] = []
        self.stamps: list[object] = []
        self.sums: tuple[Checksums, ...] = ()
        #: Whether it is known how the memory was when dependents were last computed.
        self.known = not self.ranges
        self.written = False
        self.in_a_row = 0
        self.rest = 0
        self.storages = frozenset(storage_address(x) for x, _ in regions)
        if self.ranges:
            tell_of_steps(self)

    def forget(self) -> None:
        """Whatever depends on the tensors is being computed anew, and nobody has looked at them.

        The next look finds a change, and only then it is known again how they are: tensors that
        are written before each call are never looked at.
        """
        self.known = not self.ranges

    def note_write(self) -> None:
        """Let the next look find a change."""
        self.written = True

    def changed(self) -> bool:
        """Whether a change is found since the last look, or may have happened."""
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
        if self.in_a_row > 2:  # protecting and comparing is in vain
            self.rest = min(1 << self.in_a_row, _LONGEST_REST)
            self.forget()
        return True

    def take(self) -> None:
        """From now on, changes are those since this moment."""
        try:
            self._take(self.means or self._choose())
        except OSError:  # other memory than before
            self._take(self._choose())
        self.known = True

    def _take(self, means: _Means) -> None:
        self.copies = [string_at(a, n) for a, n in means.copied]
        for pages in means.watched:
            pages.written()
        self.stamps = list(map(stamp, means.files))
        for sums in self.sums:
            sums.take()

    def _differs(self) -> bool:
        means = self.means
        assert means is not None
        copies = [string_at(a, n) for a, n in means.copied]
        differs = copies != self.copies
        self.copies = copies
        try:
            for pages in means.watched:
                differs |= pages.written()
        except OSError:  # other memory than before
            self.means = None
            self.forget()
            return True
        if means.files:
            stamps: list[object] = list(map(stamp, means.files))
            differs |= stamps != self.stamps
            self.stamps = stamps
        for sums in self.sums:
            if sums.changed():
                sums.take()
                differs = True
        return differs

    def _choose(self) -> _Means:
        means = self.means = _Means()
        large = []
        for start, end in self.ranges:
            if end - start <= COPIED_BYTES:
                means.copied.append((start, end - start))
            else:
                large.append((start, end))
        foreign = mappings() if large else ()
        for start, end in large:
            found = behind(start, end, foreign)
            means.files |= {m.path for m in found if m.path and not m.shared}
            shared = any(m.shared for m in found)
            if not shared and self._watch_pages(means, start, end):
                if found:  # a file's pages change, too, when others write the file
                    _inner(means, means.round, start, end)
            else:
                _inner(means, means.whole if shared or self.exact else means.round, start, end)
        looks = ((means.whole, 1), (means.round, 1 if self.exact else LOOKS))
        self.sums = tuple(Checksums(ranges, n) for ranges, n in looks if ranges)
        return means

    def _watch_pages(self, means: _Means, start: int, end: int) -> bool:
        """Have the system watch a range's pages; False where it does not."""
        pages, page = written_pages(), mmap.PAGESIZE
        first, last = -(-start // page) * page, end // page * page
        if pages is None or first >= last:
            return False
        try:
            means.watched.append(pages.watch(first, last))
        except OSError:
            return False
        _add_copied(means, ((start, first), (last, end)))
        return True


def _inner(means: _Means, ranges: list[tuple[int, int]], start: int, end: int) -> None:
    """Add to ``ranges`` what checksums can read; some bytes at the ends are compared."""
    first, last = -(-start // _WORD) * _WORD, end // _WORD * _WORD
    ranges.append((first, last))
    _add_copied(means, ((start, first), (last, end)))


def _add_copied(means: _Means, ranges: Sequence[tuple[int, int]]) -> None:
    means.copied += [(start, end - start) for start, end in ranges if start < end]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes, in order, as few ranges."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
