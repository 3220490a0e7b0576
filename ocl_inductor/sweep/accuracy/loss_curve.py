"""Ten training steps with eager, with the backend and in float64: do the losses stay together?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.rows.subject import (
    Subject,
    fresh,
    in_float64,
    reset_seeds,
    stepper,
)

STEPS = 10
#: A loss may be this many times eager's largest distance from float64 away from float64 ...
MULTIPLE = 10.0
#: ... plus this share of the loss itself: rounding grows from step to step.
SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Curves:
    """Losses step by step. ``float64`` equals ``eager`` where the model does not run in float64."""

    eager: tuple[float, ...]
    backend: tuple[float, ...]
    float64: tuple[float, ...]
    passed: bool
    message: str = ""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def compare_loss_curves(job: Job, subject: Subject, backend: Backend) -> Curves:
    """Train ``STEPS`` steps from the same weights three times, with the row's own optimiser."""
    eager = _losses(job, fresh(subject), lambda module: module)
    own = fresh(subject, backend.place)
    with backend.compiling(exact_random=True), backend.running():
        compiled = _losses(
            job, own, lambda module: backend.compile(module, job.dynamic or None), backend.place
        )
    try:
        plain = dataclasses.replace(job, dtype="float32")  # no autocast around float64
        exact = _losses(plain, in_float64(job, subject), lambda module: module)
    except Exception:  # many models do not run in float64; eager is the yardstick then
        exact = eager
    return judge(eager, compiled, exact)


def judge(
    eager: tuple[float, ...], compiled: tuple[float, ...], exact: tuple[float, ...]
) -> Curves:
    """Whether the compiled losses stay as near to float64 as ``MULTIPLE`` and ``SHARE`` allow."""
    distances = [abs(a - b) for a, b in zip(eager, exact, strict=True)]
    spread = max((d for d in distances if math.isfinite(d)), default=0.0)
    for step, (loss, reference) in enumerate(zip(compiled, exact, strict=True), start=1):
        # Written so that NaN fails, unless the reference is NaN as well.
        near = abs(loss - reference) <= MULTIPLE * spread + SHARE * abs(reference)
        if not near and reference == reference:
            message = f"loss after step {step} is {loss:.6g}, in float64 {reference:.6g}"
            return Curves(eager, compiled, exact, False, message)
    return Curves(eager, compiled, exact, True)


def _losses(
    job: Job,
    subject: Subject,
    wrap: Callable[[torch.nn.Module], Callable[..., object]],
    place: str = "cpu",
) -> tuple[float, ...]:
    reset_seeds()
    torch._dynamo.reset()
    step = stepper(job, subject, wrap(subject.module), place=place)
    return tuple(float(step()) for _ in range(STEPS))
