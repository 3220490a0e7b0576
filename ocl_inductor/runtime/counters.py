"""``torch._dynamo.utils.counters["opencl"]``: what was compiled and what ran."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from torch._dynamo.utils import counters

from ocl_inductor.plan.plan import HostCall, Plan

# Kernels are built, and models called, in several threads.
_lock = threading.Lock()


def count_plan(plan: Plan) -> None:
    """Count one compiled graph: its kernels, and each operator left to the host."""
    with _lock:
        table = counters["opencl"]
        table["graphs"] += 1
        table["kernels"] += plan.statistics["kernels"]
        table["programs"] += len(plan.kernels)
        table["prologue_kernels"] += plan.statistics["prologue_kernels"]
        table["planned_peak_bytes"] += plan.statistics["peak_bytes"]
        table["planned_lower_bound_bytes"] += plan.statistics["lower_bound_bytes"]
        table["fallbacks"] += plan.statistics["fallbacks"]
        for step in host_calls(plan):
            if step.fallback:
                table[f"fallback: {step.label}"] += 1


def count_fallback(operator: str) -> None:
    """Count one operator that runs on the host between plans."""
    with _lock:
        counters["opencl"]["fallbacks"] += 1
        counters["opencl"][f"fallback: {operator}"] += 1


def host_calls(plan: Plan) -> Iterator[HostCall]:
    """The host calls of a plan, and of the plans that it runs."""
    for step in (*plan.prologue, *plan.steps):
        if isinstance(step, HostCall):
            yield step
            for body in step.bodies:
                yield from host_calls(body)


def count(name: str, amount: int = 1) -> None:
    """Add to a counter; any thread may."""
    with _lock:
        counters["opencl"][name] += amount
