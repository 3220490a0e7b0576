"""PyTorch's structured trace (``TORCH_TRACE``, read by tlparse): our plan and kernels in it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from torch._guards import CompileContext
from torch._logging import trace_structured

from ocl_inductor.observe.report.values import GraphReport
from ocl_inductor.plan.plan import Plan

PLAN_ARTIFACT = "opencl_plan"
KERNELS_ARTIFACT = "opencl_kernels"


def compile_id() -> str:
    """Dynamo's name for the compilation that runs, such as ``0/1``; empty outside of one."""
    found = CompileContext.current_compile_id()
    return "" if found is None else str(found)


def trace_plan(plan: Plan, report: Callable[[], GraphReport]) -> None:
    """Add the summary of a plan and the source of its kernels; does nothing without a trace."""
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": PLAN_ARTIFACT, "encoding": "json"},
        payload_fn=lambda: _summary(report()),
        expect_trace_id=False,
    )
    trace_kernels(plan)


def trace_kernels(plan: Plan) -> None:
    """Only the sources: all that there is to say of a plan from the cache."""
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": KERNELS_ARTIFACT, "encoding": "string"},
        payload_fn=lambda: "\n".join(k.source for k in plan.kernels),
        expect_trace_id=False,
    )


def _summary(report: GraphReport) -> str:
    """JSON of the report; sources are in an artefact of their own."""
    facts = dataclasses.asdict(report)
    facts["kernels"] = [k.name for k in report.kernels]
    return json.dumps(facts, indent=1)
