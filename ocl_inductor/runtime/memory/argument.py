"""The kernel arguments of a tensor that may lie somewhere else at each call."""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.device.driver.handles import ClKernel, ClMemory
from ocl_inductor.runtime.memory.strategy import UnifiedMemory

#: Windows onto host memory cached for each argument: the allocator tends to reuse addresses.
MAX_WINDOWS = 64
#: Total bytes of these windows; one is always kept. A driver's allocation for a window may lie just
#: behind its tensor, and then the C library cannot reuse the tensor's memory for the same size
#: (plus alignment) as long as the window exists: 64 windows of 25 MiB kept 1.6 GiB. Creating one
#: takes 1 µs, writing a MiB 50.
MAX_WINDOW_BYTES = 2 << 20

Uses = Sequence[tuple[ClKernel, int]]


class Argument:
    """A tensor whose address may change with each call, and the kernel arguments bound to it."""

    __slots__ = ("most_windows", "nbytes", "pointer", "uses", "windows")

    def __init__(self, nbytes: int, uses: Uses, addresses: bool = False) -> None:
        """``addresses``: a window is device memory by address, and keeps nothing alive."""
        self.nbytes = nbytes
        self.uses = tuple(uses)
        self.pointer = -1
        self.windows: dict[int, ClMemory] = {}  # the oldest first
        most = MAX_WINDOWS if addresses else MAX_WINDOW_BYTES // nbytes
        self.most_windows = max(1, min(MAX_WINDOWS, most))

    def bind(self, pointer: int, memory: UnifiedMemory) -> None:
        """Bind the kernels to ``nbytes`` of host memory."""
        window = self.windows.get(pointer)
        if window is None:
            if len(self.windows) >= self.most_windows:
                # Before the new one is created, which can then reuse its memory.
                del self.windows[next(iter(self.windows))]
                if self.most_windows == 1:
                    memory.turnover.moved(self.nbytes)
            window = memory.at(pointer, self.nbytes)
            self.windows[pointer] = window
        for kernel, position in self.uses:
            kernel.set_arg(position, window)
        self.pointer = pointer
