"""Performance of one model: one backend alone from its first call, and all of them in turns."""

from __future__ import annotations

import statistics as stats
import time
from collections.abc import Callable

import torch

from ocl_inductor.sweep.performance.breakdown import breakdown
from ocl_inductor.sweep.performance.timing import interleave, wait_for_children
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.child import (
    Emit,
    is_out_of_memory,
    peak_mib,
    reset_peak,
    resident_mib,
    short_message,
)
from ocl_inductor.sweep.process.compiled import forget, guard_check_us, statistics
from ocl_inductor.sweep.process.job import Job, Mode
from ocl_inductor.sweep.rows.subject import Subject, load_subject, placed, reset_seeds, stepper
from ocl_inductor.sweep.status import Status

Step = Callable[[], object]

#: Calls after the first one, in which memory is observed.
STEADY_CALLS = 3
#: Calls whose median is one sample of ``throughput``.
THROUGHPUT_CALLS = 5


def run_cold(job: Job, emit: Emit) -> None:
    """One backend in a process of its own: first call, memory, counters, guards, breakdown.

    Emits ``cold``: ``startup_s`` is what compiling a trivial model takes (loading the compiler and
    the drivers), ``first_call_s`` the whole first iteration, compilation included; ``host_mib``
    what the model takes at most during later calls, beyond what the process held before it was
    built; ``host_compiling_mib`` the same during the first call.
    """
    backend = Backend.parse(job.backends[0])
    emit("phase", phase="start")
    backend.prepare()
    startup = start_up(backend, job.mode)
    base = resident_mib()
    emit("phase", phase="load")
    subject = placed(load_subject(job), backend.place)
    emit("phase", phase="eager" if backend.is_eager else "backend")
    forget()
    reset_seeds()
    with backend.compiling():
        step = _step(job, backend, subject)
        start = time.perf_counter()
        step()
        first = time.perf_counter() - start
        compiling = peak_mib()
        counted = reset_peak()
        for _ in range(STEADY_CALLS):
            step()
        steady = peak_mib()
        found = statistics(backend)
        emit(
            "cold",
            startup_s=startup,
            first_call_s=first,
            host_mib=max(0.0, steady - base) if counted else None,
            host_compiling_mib=max(0.0, compiling - base),
            process_mib=steady,
            **found,
        )
        if not backend.is_eager:
            emit("guards", guard_check_us=guard_check_us(step))
        if backend.is_opencl:
            emit("breakdown", breakdown=breakdown(step))


def run_first_use(job: Job) -> None:
    """Compile a trivial model for both modes, so that caches hold what no model is to pay for."""
    backend = Backend.parse(job.backends[0])
    backend.prepare()
    start_up(backend, "inference")
    start_up(backend, "training")


def start_up(backend: Backend, mode: Mode) -> float:
    """Seconds to run a trivial model, so that what follows measures the job's model alone.

    Otherwise the memory of Dynamo, sympy and an OpenCL driver's compiler, several hundred MiB that
    any program holds once, would hide what models need. The model has a product and a loop: a
    compiler may have a library for the first, and starts its own work with the second.
    """
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).to(backend.place)
    x = torch.ones(4, 8, device=backend.place)
    start = time.perf_counter()
    with backend.compiling(), backend.running(), torch.set_grad_enabled(mode == "training"):
        loss = backend.compile(module, None)(x).sum()
        if mode == "training":
            loss.backward()
    return time.perf_counter() - start


def _step(
    job: Job, backend: Backend, subject: Subject, optimizer: torch.optim.Optimizer | None = None
) -> Step:
    """One iteration of a subject that is in the backend's place, to its end."""
    call = backend.compile(subject.module, job.dynamic or None)
    return backend.finishing(stepper(job, subject, call, optimizer, backend.place))


def run_timed(job: Job, emit: Emit) -> None:
    """All backends side by side; one that raises is left out with its message.

    They share the model, in training with its gradients and the optimiser's state: a large model
    would not fit several times, and none has its weights in a better place. Those on ``ocl`` have
    copies there.
    """
    backends = {label: Backend.parse(label) for label in job.backends}
    for backend in backends.values():
        backend.prepare()
    emit("phase", phase="load")
    subject = load_subject(job)
    optimizer = subject.optimizer() if job.mode == "training" else None
    steps: dict[str, Step] = {}
    emit("phase", phase="backend")
    torch._dynamo.reset()
    for label, backend in backends.items():
        emit("progress", text=f"compiling for {label}")
        try:
            with backend.compiling():
                reset_seeds()
                own = placed(subject, backend.place)
                step = _step(job, backend, own, optimizer if own is subject else None)
                start = time.perf_counter()
                step()
                seconds = time.perf_counter() - start
        except Exception as error:
            status = Status.OOM if is_out_of_memory(error) else Status.FAIL_TO_RUN
            emit("failed", backend=label, status=str(status), message=short_message(error))
            continue
        emit("warm", backend=label, first_call_s=seconds)
        steps[label] = step
    if not wait_for_children():
        emit("progress", text="compile workers are still busy: times may suffer")
    timings = interleave(
        steps,
        job.repeat,
        lambda done: emit("progress", text=f"round {done} of {job.repeat}"),
    )
    for label, timing in timings.items():
        emit("timing", backend=label, **timing.as_dict())


def run_throughput(job: Job, emit: Emit) -> None:
    """One backend at one batch size: milliseconds a call, and memory."""
    backend = Backend.parse(job.backends[0])
    backend.prepare()
    start_up(backend, job.mode)
    base = resident_mib()
    emit("phase", phase="load")
    subject = placed(load_subject(job), backend.place)
    emit("phase", phase="eager" if backend.is_eager else "backend")
    with backend.compiling():
        step = _step(job, backend, subject)
        step()
        step()
        counted = reset_peak()
        samples = []
        for _ in range(max(1, job.repeat)):
            for _ in range(THROUGHPUT_CALLS):
                start = time.perf_counter()
                step()
                samples.append((time.perf_counter() - start) * 1e3)
    emit(
        "throughput",
        median_ms=stats.median(samples),
        min_ms=min(samples),
        host_mib=max(0.0, peak_mib() - base) if counted else None,
    )
