"""Rows of the smoke suite that take seconds, checked as ``sweep run --accuracy`` checks them.

In this process: the processes of a sweep spend most of their time on loading PyTorch, and
``test_run.py`` has them. ``make sweep-smoke`` runs the whole suite.
"""

from __future__ import annotations

import pytest

from ocl_inductor.device.select import select_device
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.accuracy.accuracy import check_accuracy
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.job import Mode
from ocl_inductor.sweep.rows.selection import Selection
from ocl_inductor.sweep.run.options import RunOptions
from ocl_inductor.sweep.status import Status


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("lennard_jones", "inference"),
        ("lennard_jones", "training"),
        ("maml_omniglot", "inference"),
        pytest.param("maml_omniglot", "training", marks=pytest.mark.slow),
        pytest.param("soft_actor_critic", "training", marks=pytest.mark.slow),
    ],
)
def test_small_rows_are_accurate(name: str, mode: Mode) -> None:
    try:
        device = select_device("intel")
    except OpenCLInductorError:
        pytest.skip("no OpenCL device 'intel' here")
    (row,) = Selection(suite="smoke", keep=(f"^{name}$",)).rows()
    backend = Backend("opencl").on_device(device.short_name)
    job = RunOptions().job("accuracy", row, mode, (backend,))
    report = check_accuracy(job, row.config, lambda *_, **__: None)
    assert report.status is Status.PASS, report
    assert report.details["fallbacks"] == report.details["graph_breaks"] == 0
    assert report.details["launches"] >= 1
    # Of training: the loss and a gradient for each weight too.
    assert report.details["results"] >= (1 if mode == "inference" else 8)
