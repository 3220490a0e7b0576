"""What a call enqueues with.

Whatever enqueues for a call gets it as an argument: usually the stream of the plan's own queues.
While a profile is taken, each call gets another one (recording.py), whose queues take times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ocl_inductor.device.driver.handles import ClQueue, PyOpenCL
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.plan.plan import HostCall


@dataclass(frozen=True, slots=True)
class CommandStream:
    """``queue``: for kernels, and transfers in order with them; ``transfers``: for transfers beside
    them, the same queue where there are none. ``cl``: pyopencl, or what notes each event that an
    enqueuing function returns. ``note_host_call(step, start_ns)`` is told when a host call has
    ended; None: nothing is recorded.
    """

    queue: ClQueue
    transfers: ClQueue
    cl: PyOpenCL
    note_host_call: Callable[[HostCall, int], None] | None = None

    @classmethod
    def on(cls, queue: ClQueue, transfers: ClQueue = None) -> CommandStream:
        """Usual calls on these queues."""
        return cls(queue, queue if transfers is None else transfers, load_pyopencl())
