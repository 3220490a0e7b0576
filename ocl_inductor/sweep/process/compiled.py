"""What compiling left behind: graphs, breaks, guards, recompilations, kernels, fallbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters, get_compilation_metrics

from ocl_inductor.sweep.process.backends import Backend

#: Calls that are profiled to see what checking guards costs.
GUARDED_CALLS = 5
_LOOKUP = "TorchDynamo Cache Lookup"


def forget() -> None:
    """Start counting anew: nothing is compiled, and every counter is 0."""
    torch._dynamo.reset()
    counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()


def statistics(backend: Backend) -> dict[str, Any]:
    """Counters since ``forget``; the first seven have dynamobench's names.

    ``kernels`` are programs, ``launches`` those that a call enqueues, over all graphs together;
    None where a backend does not count them. Times in seconds.
    """
    metrics = get_compilation_metrics()
    breaks = counters["graph_break"]
    found: dict[str, object] = {
        "calls_captured": counters["stats"]["calls_captured"],
        "unique_graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(breaks.values()),
        "unique_graph_breaks": len(breaks),
        "autograd_captures": counters["compiled_autograd"]["captures"],
        "autograd_compiles": counters["compiled_autograd"]["compiles"],
        "cudagraph_skips": counters["inductor"]["cudagraph_skips"],
        "recompilations": sum(bool(m.recompile_reason) for m in metrics),
        "guards": sum(m.guard_count or 0 for m in metrics),
        "guard_build_s": sum(m.guard_latency_us or 0 for m in metrics) / 1e6,
        "graph_break_reasons": [str(reason).splitlines()[0][:160] for reason in list(breaks)[:5]],
        "kernels": None,
        "launches": None,
        "fallbacks": None,
        "fallback_operators": {},
        "device_planned_mib": None,
    }
    if backend.is_opencl:
        own = counters["opencl"]
        on_host = {
            key.removeprefix(prefix): count
            for prefix in ("fallback: ", "eager on host: ")
            for key, count in own.items()
            if key.startswith(prefix)
        }
        found |= {
            "kernels": own["programs"] or own["kernels"],
            "launches": own["kernels"],
            "fallbacks": sum(on_host.values()) if backend.is_resident else own["fallbacks"],
            "fallback_operators": on_host,
            "device_planned_mib": own["planned_peak_bytes"] / 2**20,
        }
    elif backend.name == "inductor":
        from torch._inductor import metrics as inductor_metrics

        found["kernels"] = inductor_metrics.generated_kernel_count
    return found


def guard_check_us(step: Callable[[], object]) -> float | None:
    """Microseconds that Dynamo spends checking guards in one ``step``; None where it says nothing.

    From the profiler's events of Dynamo's cache lookups, as dynamobench reads them.
    """
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(GUARDED_CALLS):
            step()
    lookups = [event for event in profile.key_averages() if event.key == _LOOKUP]
    if not lookups:
        return None
    return sum(event.self_cpu_time_total for event in lookups) / GUARDED_CALLS
