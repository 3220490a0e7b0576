"""The measuring process: ``python -m benchmarks.worker <job as JSON>``, started by ``isolation``.

Jobs answer in lines of JSON on standard output, each as soon as it is known, so that a crash
loses only what was not measured yet. Whatever libraries print goes to standard error.

    first        one contender alone: seconds to the first result, peak memory, counters, and
                 the time of ``repeats`` further calls
                 (``after_imports``: without what importing the compiler takes)
    timed        all contenders interleaved: times, errors against float64, and the least time that
                 the device's roof allows the kernels
    environment  what the machine and its software are
"""

from __future__ import annotations

import copy
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.contenders import compiling, device_of, is_opencl, preload, prepare
from benchmarks.errors import Named, float64_reference, largest_error, named, scale
from benchmarks.training import trainable, training_step
from benchmarks.zoo import Entry, Inputs, find
from ocl_inductor.device.select import select_device
from ocl_inductor.observe.explain import explain
from ocl_inductor.observe.report.roofline import least_seconds
from ocl_inductor.sweep.performance.timing import interleave
from ocl_inductor.sweep.process.child import (
    Emit,
    claim_stdout,
    depend_on_parent,
    emitter,
    peak_mib,
    short_message,
)
from ocl_inductor.sweep.process.environment import describe


def opencl_counters() -> dict[str, int]:
    """The backend's counters that are plain numbers."""
    from torch._dynamo.utils import counters

    return {k: v for k, v in counters["opencl"].items() if isinstance(v, int)}


def first_call(contender: str, function: Callable[..., Any], inputs: Inputs) -> tuple[Any, float]:
    """The first result and the seconds it took, compilation included."""
    start = time.perf_counter()
    with compiling(contender):
        output = function(*inputs.args, **inputs.kwargs)
    return output, time.perf_counter() - start


def load(job: dict[str, Any]) -> tuple[Entry, nn.Module, Inputs]:
    entry = find(job["case"])
    if entry is None:
        raise ValueError(f"no case {job['case']!r}")
    small = job["small"]
    model = trainable(entry, small) if job.get("training") else entry.build(small)
    dtype: torch.dtype = getattr(torch, job.get("dtype", "float32"))
    return entry, model.to(dtype), entry.inputs(small, batch=job.get("batch")).to(dtype)


def contend(job: dict[str, Any], contender: str, model: nn.Module) -> Callable[..., Any]:
    """What a contender does in each call: the model, or a step of its training."""
    call = prepare(contender, model)
    return training_step(model, call) if job.get("training") else call


def reference_of(job: dict[str, Any], model: nn.Module, inputs: Inputs) -> Named:
    if not job.get("training"):
        return float64_reference(model, inputs)
    wide, double = copy.deepcopy(model).double(), inputs.double()
    return named(training_step(wide, wide)(*double.args, **double.kwargs))


def run_first(job: dict[str, Any], emit: Emit) -> None:
    """One contender in a process of its own."""
    entry, model, inputs = load(job)
    if job.get("after_imports"):
        preload(job["contender"])
    with entry.dynamo():
        before = peak_mib()
        function = contend(job, job["contender"], model)
        _, seconds = first_call(job["contender"], function, inputs)
        for _ in range(2):
            function(*inputs.args, **inputs.kwargs)
        emit(
            "first",
            compile_s=seconds,
            peak_mib=peak_mib(),
            peak_before_mib=before,
            counters=opencl_counters(),
        )
        call = partial(function, *inputs.args, **dict(inputs.kwargs))
        (alone,) = interleave({"alone": call}, job.get("repeats", 1)).values()
        emit("alone", alone_ms=alone.median_ms)


def run_timed(job: dict[str, Any], emit: Emit) -> None:
    """All contenders side by side; one that raises is left out with its message."""
    entry, model, inputs = load(job)
    for device in filter(is_opencl, job["contenders"]):
        # Before an engine loads libraries that are called like the driver's (DriverNotOpenedError).
        select_device(device_of(device))
    calls: dict[str, Callable[[], object]] = {}
    outputs: dict[str, Named] = {}
    with entry.dynamo():
        for contender in job["contenders"]:
            emit("progress", text=f"compiling for {contender}")
            try:
                function = contend(job, contender, model)
                output, _ = first_call(contender, function, inputs)
            except Exception as error:
                emit("failed", contender=contender, message=short_message(error))
                continue
            outputs[contender] = named(output)
            calls[contender] = partial(function, *inputs.args, **dict(inputs.kwargs))
        rounds = job["repeats"]
        timings = interleave(
            calls, rounds, lambda done: emit("progress", text=f"round {done} of {rounds}")
        )
    for contender, timing in timings.items():
        emit("timing", contender=contender, **timing.as_dict())
    emit("progress", text="float64 reference")
    reference = reference_of(job, model, inputs)
    for contender in () if job.get("training") else filter(is_opencl, outputs):
        emit("progress", text=f"roof of {contender}")
        with entry.dynamo():
            emit("roof", contender=contender, **least_time(contender, model, inputs))
    for contender, output in outputs.items():
        distance = largest_error(output, reference)
        emit(
            "error",
            contender=contender,
            error=distance,
            scale=scale(reference),
        )


def least_time(contender: str, model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """Operations and bytes of one call's kernels, and the milliseconds they take at the roof."""
    options = {"device": device_of(contender)}
    found = explain(model, *inputs.args, compile_options=options, **inputs.kwargs)
    steps = [s for graph in found.graphs for s in graph.steps if s.stage == "call"]
    return {
        "flops": sum(s.flops or 0 for s in steps),
        "bytes": sum(s.bytes or 0 for s in steps),
        "least_ms": least_seconds(tuple(steps), found.roof) * 1e3 or None,
    }


def main() -> None:
    warnings.filterwarnings("ignore")
    emit = emitter(claim_stdout())
    depend_on_parent()
    job = json.loads(sys.argv[1])

    if job.get("threads"):
        torch.set_num_threads(job["threads"])
    with torch.no_grad():
        match job["kind"]:
            case "first":
                run_first(job, emit)
            case "timed":
                run_timed(job, emit)
            case "environment":
                emit("environment", **describe())
            case kind:
                raise ValueError(f"unknown kind of job {kind!r}")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(short_message(error), file=sys.stderr)
        raise SystemExit(1) from error
