"""The demonstration's network on the device ``ocl``: eagerly, lazily and compiled.

Once ``ocl`` is registered it is PyTorch's accelerator, for the rest of the process; so each of the
three has a process of its own (``python -m benchmarks.demo_ocl <job as JSON>``), beside which the
others stay as they are.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console

from benchmarks import digits
from benchmarks.learner import Learner, Record
from benchmarks.steps import step
from benchmarks.ways import WAYS, possible
from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.child import claim_stdout, depend_on_parent, emitter, short_message
from ocl_inductor.sweep.process.isolation import run_job

#: The ways by their names in the table; the last one's optimiser is compiled, too, as the others'.
TITLES = {"ocl": "ocl eager", "ocl lazy": "ocl lazy", "ocl compiled+": "ocl compiled"}
_SECONDS = 600.0


def learn_on_ocl(console: Console, driver: str, epochs: int) -> Iterator[tuple[str, Record | None]]:
    """Each name with what came out, or with None where it failed, which is printed."""
    for name in possible(TITLES):
        title = TITLES[name]
        with step(console, f"{epochs} epochs, {title}") as say:
            outcome = run_job(
                {"way": name, "epochs": epochs},
                None,
                Limits(_SECONDS),
                say,
                module="benchmarks.demo_ocl",
                environment={"OCL_INDUCTOR_DEVICE": driver},
                folder=Path(__file__).parents[1],
            )
        found = outcome.first("learned")
        if found is None:
            console.print(f"  {title} failed: {outcome.message}", style="red", markup=False)
            yield title, None
            continue
        losses = [math.nan if loss is None else loss for loss in found["losses"]]
        yield title, Record(**{**found, "name": title, "losses": losses})


def main() -> None:
    """Learn in one way, and say what came out."""
    warnings.filterwarnings("ignore")
    torch._logging.set_logs(dynamo=logging.ERROR)
    emit = emitter(claim_stdout())
    depend_on_parent()
    job = json.loads(sys.argv[1])
    way = WAYS[job["way"]]
    way.prepare()
    data, learner = digits.load(), Learner.on(way)
    for number in range(1, job["epochs"] + 1):
        with way.context():
            learner.epoch(data, number)
        emit("progress", text=f"epoch {number} of {job['epochs']}")
    learner.read(data.test_images)
    emit("learned", **asdict(learner.record))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(short_message(error), file=sys.stderr)
        raise SystemExit(1) from error
