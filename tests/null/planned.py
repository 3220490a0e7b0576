"""The memory of a schedule as it is, for tests that write the stages out."""

from __future__ import annotations

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.nodes import Graph
from ocl_inductor.memory.allocations import Allocations, find_allocations
from ocl_inductor.memory.liveness import find_lifetimes
from ocl_inductor.memory.planner import MemoryPlan, plan_memory
from ocl_inductor.pipeline.verify import verify_memory
from ocl_inductor.schedule.groups import Schedule


def allocations_of(graph: Graph, schedule: Schedule) -> Allocations:
    return find_allocations(graph, schedule.groups)


def planned_memory(graph: Graph, schedule: Schedule, device: DeviceInfo) -> MemoryPlan:
    """Verified; inputs that the graph changes keep their memory until its end."""
    allocations = allocations_of(graph, schedule)
    live = find_lifetimes(schedule, allocations)
    memory = plan_memory(schedule, allocations, live, device, int, {})
    verify_memory(live, memory)
    return memory
