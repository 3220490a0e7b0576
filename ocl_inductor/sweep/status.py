"""How a model's run ended, in dynamobench's words."""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """The outcome of one model, mode and backend.

    Names are those that PyTorch's ``benchmarks/dynamo`` writes, apart from ``unsupported``: a row
    that says itself that it cannot run here.
    """

    PASS = "pass"
    PASS_DUE_TO_SKIP = "pass_due_to_skip"
    FAIL_ACCURACY = "fail_accuracy"
    FAIL_TO_RUN = "fail_to_run"
    OOM = "OOM"
    TIMEOUT = "timeout"
    EAGER_FAIL_TO_RUN = "eager_fail_to_run"
    EAGER_OOM = "eager_1st_run_OOM"
    EAGER_TWO_RUNS_DIFFER = "eager_two_runs_differ"
    MODEL_FAIL_TO_LOAD = "model_fail_to_load"
    INFRA_ERROR = "infra_error"
    UNSUPPORTED = "unsupported"

    def __str__(self) -> str:
        return self.value

    @property
    def good(self) -> bool:
        return self in (Status.PASS, Status.PASS_DUE_TO_SKIP)

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS = {
    Status.PASS: "ran, and its results agree",
    Status.PASS_DUE_TO_SKIP: "ran; its row says that results cannot be compared",
    Status.FAIL_ACCURACY: "ran, and its results are wrong",
    Status.FAIL_TO_RUN: "the backend raised an exception or crashed the process",
    Status.OOM: "the backend needed more memory than the limit",
    Status.TIMEOUT: "took longer than the limit",
    Status.EAGER_FAIL_TO_RUN: "eager itself raised an exception or crashed",
    Status.EAGER_OOM: "eager itself needed more memory than the limit",
    Status.EAGER_TWO_RUNS_DIFFER: "eager does not agree with itself, so nothing can be compared",
    Status.MODEL_FAIL_TO_LOAD: "the model could not be built",
    Status.INFRA_ERROR: "the measuring process itself failed",
    Status.UNSUPPORTED: "its row says that it cannot run here, and why",
}


def ended_early(outcome: str, phase: str) -> Status:
    """The status of a process that did not get to give one.

    Args:
        outcome: of ``isolation.Outcome``: ``error``, ``crashed``, ``timeout`` or ``oom``.
        phase: the last phase it announced.
    """
    if outcome == "timeout":
        return Status.TIMEOUT
    if outcome == "oom":
        return Status.EAGER_OOM if phase in ("start", "load", "eager", "float64") else Status.OOM
    match phase:
        case "load":
            return Status.MODEL_FAIL_TO_LOAD
        case "eager" | "float64":
            return Status.EAGER_FAIL_TO_RUN
        case "backend":
            return Status.FAIL_TO_RUN
    return Status.INFRA_ERROR
