"""When memory that large tensors left is given back to the system."""

from __future__ import annotations

from ocl_inductor.patches.process.malloc_trim import give_back_freed

#: Bytes of large tensors that came to lie elsewhere before freed memory is given back the first
#: time, and how many times as many it takes from each time to the next.
_FIRST_BYTES = 256 << 20
_TIMES = 2


class Turnover:
    """Has memory that tensors left given back, more and more rarely.

    Whatever small thing is allocated behind a large tensor while that lives, here or in PyTorch,
    splits the heap there for good. What lay before it fits nothing of the same size any more, as
    that is allocated with room to be aligned. Such holes come with the first calls, mostly up to
    ten of them; then new tensors lie where others lay.
    """

    __slots__ = ("due", "moved_bytes")

    def __init__(self) -> None:
        self.moved_bytes, self.due = 0, _FIRST_BYTES

    def moved(self, nbytes: int) -> None:
        """A tensor of these bytes lies elsewhere than the last one."""
        self.moved_bytes += nbytes
        if self.moved_bytes >= self.due:
            self.due = _TIMES * self.moved_bytes
            give_back_freed()
