"""Launches that leave a device idle."""

from __future__ import annotations

import math

from ocl_inductor.device.described import DescribedTarget
from ocl_inductor.plan.plan import Launch, Plan

#: Work-items that one compute unit needs to have something to do in every cycle, at the least.
ITEMS = 64
#: A launch has work for a work-item that brings it so many bytes of memory or operations.
BYTES, OPERATIONS = 64, 256


def launches(plan: Plan) -> list[Launch]:
    """Those of every call; what is done once for parameters is left out."""
    return [s for s in plan.steps if isinstance(s, Launch)]


def work_items(launch: Launch) -> int:
    return math.prod(int(n) for n in launch.global_size)


def is_starved(launch: Launch, target: DescribedTarget) -> bool:
    """Whether compute units have nothing to do although there is work for all of them."""
    fill = target.compute_units * ITEMS
    work = max(int(launch.bytes) // BYTES, int(launch.flops) // OPERATIONS)
    return work_items(launch) < fill <= work


def asks_too_much(launch: Launch, local: int, target: DescribedTarget) -> bool:
    """Whether the device cannot run it: the work-group, or its local memory in bytes."""
    items = math.prod(launch.local_size or (1,))
    return items > target.max_work_group_size or local > target.local_memory
