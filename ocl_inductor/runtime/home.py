"""Which of a processor's two ways runs a plan: all cores, or the calling thread alone."""

from __future__ import annotations

from ocl_inductor.device import Device
from ocl_inductor.plan import Launch, Plan
from ocl_inductor.runtime.counters import count
from ocl_inductor.settings import Settings


def home_of(plan: Plan, device: Device, settings: Settings) -> Device:
    """The device itself, or its twin for the calling thread (calling_thread.py)."""
    if not settings.calling_thread or settings.memory == "discrete" or not _is_small(plan, device):
        return device
    twin = device.calling_thread
    if twin is None:
        return device
    count("calling_thread_plans")
    return twin


def _is_small(plan: Plan, device: Device) -> bool:
    """Whether one core is done before all of them were told and waited for."""
    info = device.info
    alone = plan.statistics.get("alone_ns", -1) * 1e-9
    if alone < 0 or not all(isinstance(s, Launch) for s in plan.steps):
        return False
    saved = info.launch_s * len(plan.steps) + info.wait_s
    return alone * (1 - 1 / info.compute_units) < saved
