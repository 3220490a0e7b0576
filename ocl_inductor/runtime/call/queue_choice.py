"""Which of a processor's two queues runs a plan: all cores, or only the calling thread."""

from __future__ import annotations

from ocl_inductor.device.device import Device
from ocl_inductor.plan.plan import Plan
from ocl_inductor.runtime.counters import count
from ocl_inductor.settings import Settings


def choose_queue(plan: Plan, device: Device, settings: Settings) -> Device:
    """The device itself, or its inline device (device/inline_queue.py)."""
    # Tensors on the device are used in order with everything else there, so through one queue.
    in_order = plan.residence is not None or settings.memory in ("discrete", "buffers")
    if in_order or not settings.calling_thread or not plan.single_core:
        return device
    inline = device.calling_thread
    if inline is None:
        return device
    count("calling_thread_plans")
    return inline
