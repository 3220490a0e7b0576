"""Accuracy as PyTorch's ``benchmarks/dynamo`` defines it.

Eager runs twice and must agree with itself exactly; the same model runs in float64; the backend
passes where ``torch._dynamo.utils.same`` accepts it: close to eager within a tolerance, or with a
root-mean-square distance from float64 no worse than a small multiple of eager's, or with a cosine
of at least 0.99 where the row lists that metric (or no float64 run is possible). In training,
loss, gradients and buffers count as results. Dropout is off, so that steps can be compared.

Some families ask whether they are traced, and do something else then. Where results differ,
``torch.compile(backend="eager")`` tells: what it gives, in float32 and float64, is right as well.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._dynamo.utils import same

from ocl_inductor.sweep.accuracy.detections import in_order_of
from ocl_inductor.sweep.accuracy.distances import difference, floating, identical, rmse_ratio
from ocl_inductor.sweep.accuracy.loss_curve import compare_loss_curves
from ocl_inductor.sweep.accuracy.on_disk import unloaded
from ocl_inductor.sweep.accuracy.references import (
    Named,
    References,
    load_references,
    save_references,
)
from ocl_inductor.sweep.accuracy.results import at_home, run_once
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.child import Emit, is_out_of_memory, short_message
from ocl_inductor.sweep.process.compiled import forget, statistics
from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.process.phases import PhaseClock
from ocl_inductor.sweep.rows.schema import ModelConfig, Tolerance
from ocl_inductor.sweep.rows.subject import (
    Subject,
    casting,
    fresh,
    in_float64,
    load_subject,
    reset_seeds,
)
from ocl_inductor.sweep.status import Status

#: dynamobench's tolerances by the dtype of the run.
TOLERANCES = {"float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-2, "amp": 1e-2}


@dataclass(frozen=True, slots=True)
class Rule:
    """How results of one row are compared.

    Attributes:
        tolerance: absolute and relative, of ``same``.
        cosine: compare directions only.
        detections: order does not count, see ``detections.py``.
        row: what the row allows beyond that.
    """

    tolerance: float
    cosine: bool = False
    row: Tolerance = field(default_factory=Tolerance)
    detections: bool = False

    @classmethod
    def of(cls, job: Job, config: ModelConfig | None) -> Rule:
        row = Tolerance() if config is None else config.tolerance.get(job.dtype, Tolerance())
        if row.mode not in (None, job.mode):
            row = Tolerance()
        metric = "allclose" if config is None else config.metric
        unordered = metric == "detections" and job.mode == "inference"
        return cls(TOLERANCES[job.dtype], metric == "cosine", row, unordered)

    @property
    def name(self) -> str:
        return "detections" if self.detections else "cosine" if self.cosine else "allclose"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether results agree; ``message`` names the worst that does not.

    ``rmse_ratio``: the largest distance from float64 as a multiple of eager's, which counts as
    half a unit in the last place at least: a single number such as the loss may by chance be
    nearer than its dtype can promise. None without a float64 run.
    """

    passed: bool
    message: str = ""
    rmse_ratio: float | None = None
    largest_difference: float = 0.0


def compare(expected: Named, actual: Named, wide: Named | None, rule: Rule) -> Verdict:
    """The verdict on ``actual``: named results of the backend, of eager, and in float64."""
    if expected.keys() != actual.keys():
        lacking = sorted(expected.keys() ^ actual.keys())
        return Verdict(False, f"only one of the two has {', '.join(lacking[:3])}")
    chosen_as_exact: Named = {}
    if rule.detections:
        if wide is not None:
            own = in_order_of(wide, actual)
            chosen_as_exact = {n: v for n, v in own.items() if identical(wide[n], v)}
        actual = in_order_of(expected, actual)
        wide = None if wide is None else in_order_of(expected, wide)
    failures: list[tuple[float, str]] = []
    ratios: list[float] = []
    largest = 0.0
    for name, reference in expected.items():
        value = actual[name]
        exact = wide[name] if wide is not None else None
        distance = difference(reference, value)
        largest = max(largest, distance)
        ratio = rmse_ratio(reference, value, exact)
        if ratio is not None:
            ratios.append(ratio)
        # Rounding may have eager choose another box than float64, of another class.
        if not _accepted(reference, value, exact, rule) and name not in chosen_as_exact:
            failures.append((distance, f"{name}: {_describe(reference, value, distance, ratio)}"))
    worst = max(failures, default=(0.0, ""))[1]
    if len(failures) > 1:
        worst += f" (and {len(failures) - 1} more of {len(expected)})"
    return Verdict(not failures, worst, max(ratios, default=None), largest)


def _accepted(reference: object, value: object, exact: object, rule: Rule) -> bool:
    if identical(reference, value):
        return True
    quiet: Callable[..., None] = lambda *_: None  # noqa: E731
    try:
        if same(
            reference,
            value,
            exact,
            cos_similarity=rule.cosine,
            tol=rule.tolerance,
            equal_nan=True,
            log_error=quiet,
        ):
            return True
        return _accepted_by_row(reference, value, exact, rule.row)
    except (AssertionError, RuntimeError, TypeError):
        return False  # shapes or types differ


def _accepted_by_row(reference: Any, value: Any, exact: object, row: Tolerance) -> bool:
    if not floating(reference, value) or reference.dtype != value.dtype:
        return False
    if row.rtol is not None or row.atol is not None:
        rtol, atol = row.rtol or 0.0, row.atol or 0.0
        if torch.allclose(reference, value, rtol=rtol, atol=atol, equal_nan=True):
            return True
    if row.rmse_ratio is None:
        return False
    ratio = rmse_ratio(reference, value, exact)
    return ratio is not None and ratio <= row.rmse_ratio


def _describe(reference: object, value: object, distance: float, ratio: float | None) -> str:
    if not isinstance(reference, torch.Tensor) or not isinstance(value, torch.Tensor):
        return f"{reference!r} against {value!r}"[:120]
    if reference.shape != value.shape:
        return f"shape {tuple(value.shape)}, eager's {tuple(reference.shape)}"
    if reference.dtype != value.dtype:
        return f"{value.dtype}, eager's {reference.dtype}"
    text = f"differs by {distance:.3g}"
    return text if ratio is None else f"{text}, {ratio:.3g} times eager's distance from float64"


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """What checking one model gave; ``details`` goes into its record as it is."""

    status: Status
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class _Ended(Exception):
    """Carries the report of a check that cannot go on."""

    def __init__(self, status: Status, error: BaseException | str) -> None:
        message = error if isinstance(error, str) else short_message(error)
        super().__init__(message)
        self.report = AccuracyReport(status, message)


def check_accuracy(job: Job, config: ModelConfig | None, emit: Emit) -> AccuracyReport:
    """Check the job's backend on the job's model. Emits the phase it is in."""
    clock = PhaseClock(emit)
    try:
        report = _check(job, config, clock)
    except _Ended as ended:
        report = ended.report
    return replace(report, details={**report.details, "phase_s": clock.ended()})


def _check(job: Job, config: ModelConfig | None, phase: PhaseClock) -> AccuracyReport:
    backend = Backend.parse(job.backends[0])
    rule = Rule.of(job, config)
    backend.prepare()
    phase("load")
    with _ends_as(Status.MODEL_FAIL_TO_LOAD, Status.EAGER_OOM):
        subject = load_subject(job)
    skipped = job.expected == "pass_due_to_skip"
    references = load_references(job.references)
    if references is None:
        references = _references(job, subject, phase, skipped)
        save_references(job.references, references)
    expected, wide = references.eager, references.wide
    details: dict[str, object] = {"metric": rule.name}
    if described := getattr(subject, "described", ""):
        details["built"] = described
    if wide is None and not skipped:
        rule = replace(rule, cosine=True)
        details["metric"] = "cosine, as the model does not run in float64"
    if backend.is_eager:
        return AccuracyReport(Status.PASS, "eager agrees with itself", details)
    phase("backend")
    with _ends_as(Status.FAIL_TO_RUN, Status.OOM):
        start = time.perf_counter()
        actual = _run(job, subject, backend)
        details["first_call_s"] = time.perf_counter() - start
    details |= statistics(backend)
    if skipped:
        return AccuracyReport(Status.PASS_DUE_TO_SKIP, "", details)
    phase("compare")
    verdict = compare(expected, actual, wide, rule)
    family = config is None and job.mode == "inference"
    if not verdict.passed and family and not backend.is_resident:
        traced = _traced(job, subject)
        as_traced = None if traced is None else compare(traced.eager, actual, traced.wide, rule)
        if traced is not None and as_traced is not None and as_traced.passed:
            details["traced_otherwise"] = compare(expected, traced.eager, wide, rule).message
            verdict = as_traced
    details |= {
        "rmse_ratio": verdict.rmse_ratio,
        "largest_difference": verdict.largest_difference,
        "results": len(expected),
    }
    if not verdict.passed:
        return AccuracyReport(Status.FAIL_ACCURACY, verdict.message, details)
    if job.loss_curve and job.mode == "training":
        del references, expected, actual, wide
        phase("backend")
        with _ends_as(Status.FAIL_TO_RUN, Status.OOM):
            curves = compare_loss_curves(job, subject, backend)
        details["loss_curves"] = curves.as_dict()
        if not curves.passed:
            return AccuracyReport(Status.FAIL_ACCURACY, curves.message, details)
    return AccuracyReport(Status.PASS, "", details)


def _references(job: Job, subject: Subject, phase: PhaseClock, skipped: bool) -> References:
    """What the backend is compared with.

    Raises:
        _Ended: eager fails, or does not agree with itself.
    """
    phase("eager")
    with _ends_as(Status.EAGER_FAIL_TO_RUN, Status.EAGER_OOM):
        expected = _run(job, subject, None)
        again = _run(job, subject, None)
    exact = Rule(tolerance=0.0)
    if not skipped and not (verdict := compare(expected, again, None, exact)).passed:
        raise _Ended(Status.EAGER_TWO_RUNS_DIFFER, verdict.message)
    del again
    expected = unloaded(expected)
    phase("float64")
    wide = None if skipped else _float64_results(job, subject, expected)
    return References(expected, None if wide is None else unloaded(wide))


def _traced(job: Job, subject: Subject) -> References | None:
    """What the model gives where Dynamo traces it; None where it does not run so in float64."""
    dynamo = _Traced("eager")
    try:
        found = _run(job, subject, dynamo)
        reset_seeds()
        forget()
        wide = in_float64(job, subject)
        exact = run_once(job.mode, wide, dynamo.compile(wide.module, None))
    except Exception:
        return None
    return References(found, dict(_widened(exact)))


class _Traced(Backend):
    """The backend of Dynamo's that runs what was traced as it is."""

    def compile(self, function: Callable[..., object], dynamic: bool | None) -> Callable[..., Any]:
        return torch.compile(function, backend="eager", dynamic=dynamic)


class _ends_as:
    """Turns any exception into the report of a check that ended."""

    def __init__(self, status: Status, out_of_memory: Status) -> None:
        self.status = status
        self.out_of_memory = out_of_memory

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        status = self.out_of_memory if is_out_of_memory(error) else self.status
        raise _Ended(status, error) from error


def _run(job: Job, subject: Subject, backend: Backend | None) -> Named:
    """One iteration on a copy of the subject, from the same random state each time."""
    reset_seeds()
    forget()
    copied = fresh(subject, "cpu" if backend is None else backend.place)
    call: Callable[..., object] = copied.module
    if backend is None:
        with casting(job):
            found = run_once(job.mode, copied, call)
    else:
        call = backend.compile(copied.module, job.dynamic or None)
        compiling, running = backend.compiling(exact_random=True), backend.running()
        with compiling, running, casting(job, backend.place):
            found = run_once(job.mode, copied, call)
        found = {name: at_home(value) for name, value in found.items()}
    del copied, call
    gc.collect()
    return found


def _float64_results(job: Job, subject: Subject, expected: Named) -> Named | None:
    """The same results in float64; None where the model cannot run in it."""
    try:
        reset_seeds()
        wide = in_float64(job, subject)
        found = run_once(job.mode, wide, wide.module)
    except Exception:
        return None
    if found.keys() != expected.keys():
        return None
    return dict(_widened(found))


def _widened(found: Named) -> Iterator[tuple[str, object]]:
    for name, value in found.items():
        yield name, value.double() if floating(value) else value
