"""What the process in which backends take turns does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rows import write_row

from ocl_inductor.sweep.performance import measure
from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.rows.subject import Subject


def test_backends_take_turns_on_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that fits into memory once can be timed: its optimiser's state is there once too."""
    row = write_row(tmp_path, "small", "Small", optimizer={"name": "Adam"})
    loaded: list[Subject] = []
    trained: list[torch.optim.Optimizer] = []
    load, step = measure.load_subject, torch.optim.Adam.step

    def spying_load(job: Job) -> Subject:
        loaded.append(load(job))
        return loaded[-1]

    def spying_step(self: torch.optim.Adam, *args: Any) -> Any:
        trained.append(self)
        return step(self, *args)

    monkeypatch.setattr(measure, "load_subject", spying_load)
    monkeypatch.setattr(torch.optim.Adam, "step", spying_step)
    events: list[tuple[str, dict[str, Any]]] = []
    backends = ("eager", "opencl")
    job = Job("timed", "small", str(row), mode="training", backends=backends, repeat=2)
    measure.run_timed(job, lambda event, **values: events.append((event, values)))

    timings = {values["backend"]: values for event, values in events if event == "timing"}
    assert tuple(timings) == backends and all(t["median_ms"] > 0 for t in timings.values())
    (subject,) = loaded
    assert len(trained) > 4 and all(optimizer is trained[0] for optimizer in trained)
    parameters = [p for group in trained[0].param_groups for p in group["params"]]
    assert all(a is b for a, b in zip(parameters, subject.module.parameters(), strict=True))
