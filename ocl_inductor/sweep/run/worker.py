"""The measuring process: ``python -m ocl_inductor.sweep.run.worker <job as JSON>``.

``isolation.run_job`` starts it. Answers are lines of JSON on standard output; whatever libraries
print goes to standard error. ``phase`` events say how far it came, so that a crash can be blamed.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings

from ocl_inductor.sweep.process.child import (
    Emit,
    claim_stdout,
    depend_on_parent,
    emitter,
    short_message,
)
from ocl_inductor.sweep.process.job import Job


def main(argument: str) -> None:
    warnings.filterwarnings("ignore")
    emit = emitter(claim_stdout())
    depend_on_parent()
    job = Job.from_json(json.loads(argument))
    emit("phase", phase="start")
    import torch

    if job.threads:
        torch.set_num_threads(job.threads)
    if job.kind == "environment":
        from ocl_inductor.sweep.process.environment import describe

        emit("environment", **describe())
        return
    if job.kind == "overhead":
        from ocl_inductor.sweep.performance.overhead import run_overhead

        run_overhead(job, emit)
        return
    if job.kind == "first_use":
        from ocl_inductor.sweep.performance.measure import run_first_use

        run_first_use(job)
        return
    run_model(job, emit)


def run_model(job: Job, emit: Emit) -> None:
    """A job on one model, under the Dynamo settings that its row asks for."""
    import torch._dynamo

    from ocl_inductor.sweep.accuracy import accuracy
    from ocl_inductor.sweep.performance import measure
    from ocl_inductor.sweep.rows.config import load

    config = load(job.config_path) if job.config is not None else None
    with torch._dynamo.config.patch(config.dynamo if config is not None else {}):
        match job.kind:
            case "accuracy":
                report = accuracy.check_accuracy(job, config, emit)
                emit("accuracy", status=str(report.status), message=report.message)
                emit("details", **report.details)
            case "cold":
                measure.run_cold(job, emit)
            case "timed":
                measure.run_timed(job, emit)
            case "throughput":
                measure.run_throughput(job, emit)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:
        traceback.print_exc()
        print(short_message(error), file=sys.stderr)  # the last line is what the parent shows
        raise SystemExit(1) from error
