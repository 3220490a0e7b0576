"""When the memory of freed large tensors is returned to the system."""

from __future__ import annotations

from ocl_inductor.patches.process.malloc_trim import give_back_freed

#: Bytes of large tensors whose address changed before freed memory is first returned to the system,
#: and the factor from each time to the next. With inputs of 25 MiB a process grew by 76 to 226 MiB
#: in 200 calls at a factor of 2, by 76 to 152 at this one, which calls it 16 times instead of 6
#: (eager: 250; six processes each).
_FIRST_BYTES = 256 << 20
_TIMES = 1.25


class Turnover:
    """Returns the memory of freed tensors to the system, more and more rarely.

    A small allocation behind a live large tensor, here or in PyTorch, fragments the heap there for
    good. The hole before it does not fit a tensor of the same size any more, as that is allocated
    with room for alignment. Such holes appear in the first calls, mostly up to ten of them; then
    new tensors reuse the memory of old ones.
    """

    __slots__ = ("due", "moved_bytes")

    def __init__(self) -> None:
        self.moved_bytes, self.due = 0, _FIRST_BYTES

    def moved(self, nbytes: int) -> None:
        """A tensor of these bytes has another address than the last one."""
        self.moved_bytes += nbytes
        if self.moved_bytes >= self.due:
            self.due = int(_TIMES * self.moved_bytes)
            give_back_freed()
