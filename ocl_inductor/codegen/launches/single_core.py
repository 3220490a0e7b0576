"""Work that one core finishes before a launch on all cores would have started.

A CPU driver dispatches a kernel to its thread pool and waits for it, which takes longer than a
small kernel computes. Estimates assume data in caches (device/cpu/core_costs.py).
"""

from __future__ import annotations

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import is_static


def is_known(cost: Cost) -> bool:
    """Whether a cost is static: no size symbols."""
    return all(map(is_static, (cost.flops, cost.bytes, cost.calls)))


def seconds_alone(cost: Cost, device: DeviceInfo) -> float:
    """Estimated time of a kernel on one core; its cost must be known."""
    core, lanes, nbytes = device.core, device.vector_width, int(cost.bytes)
    bytes_per_second = core.bytes_per_lane * lanes
    if nbytes > device.caches.l2:
        bytes_per_second = min(bytes_per_second, core.memory_bytes)
    return (
        int(cost.flops) / (core.flops_per_lane * lanes)
        + nbytes / bytes_per_second
        + int(cost.calls) / (core.calls_per_lane * lanes)
    )


def saved_by_others(cost: Cost, work_groups: int, device: DeviceInfo) -> float:
    """Seconds saved when the work-groups of a kernel of known cost run on all cores."""
    cores = max(min(work_groups, device.compute_units), 1)
    return seconds_alone(cost, device) * (1 - 1 / cores)


def fits_one_core(saved: float, launches: int, device: DeviceInfo) -> bool:
    """Whether dispatching ``launches`` to other cores and waiting for them takes longer than the
    ``saved`` seconds it gains.
    """
    return saved < device.launch_s * launches + device.wait_s
