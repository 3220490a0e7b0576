"""Work that one core has done before others were told of it.

A CPU driver hands a kernel to threads of its own and waits for them, which takes longer than what a
small kernel computes. Estimates are of data in caches, and rather too long than too short: a step
of ``lennard_jones`` (batch 1000, 60 kernels) in the calling thread of a Zen 5 takes 0.18 ms
where they say 0.30.
"""

from __future__ import annotations

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.device_info import DeviceInfo
from ocl_inductor.ir.index import is_static

#: What one core does in a second, for each float32 lane of its vectors.
_FLOPS_PER_LANE = 6e9
_BYTES_PER_LANE = 5e9
_CALLS_PER_LANE = 0.2e9
_MEMORY_BYTES_PER_SECOND = 15e9


def is_known(cost: Cost) -> bool:
    """Whether a cost is numbers."""
    return all(map(is_static, (cost.flops, cost.bytes, cost.calls)))


def seconds_alone(cost: Cost, device: DeviceInfo) -> float:
    """About what one core takes for a kernel; its cost must be known."""
    lanes, nbytes = device.vector_width, int(cost.bytes)
    bytes_per_second = _BYTES_PER_LANE * lanes
    if nbytes > device.caches.l2:  # what one core can ask of memory
        bytes_per_second = min(bytes_per_second, _MEMORY_BYTES_PER_SECOND)
    return (
        int(cost.flops) / (_FLOPS_PER_LANE * lanes)
        + nbytes / bytes_per_second
        + int(cost.calls) / (_CALLS_PER_LANE * lanes)
    )


def saved_by_others(cost: Cost, work_groups: int, device: DeviceInfo) -> float:
    """Seconds less that a kernel of known cost takes where other cores take some of its
    work-groups.
    """
    cores = max(min(work_groups, device.compute_units), 1)
    return seconds_alone(cost, device) * (1 - 1 / cores)


def sooner_alone(saved: float, launches: int, device: DeviceInfo) -> bool:
    """Whether one core is done before others were told of ``launches`` and waited for, which would
    save ``saved`` seconds.
    """
    return saved < device.launch_s * launches + device.wait_s
