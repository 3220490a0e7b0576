"""Families from end to end: built, run by eager, in float64 and by the backend, and compared."""

from __future__ import annotations

import pytest

from ocl_inductor.device.select import select_device
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.accuracy.accuracy import check_accuracy
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.rows.selection import Selection
from ocl_inductor.sweep.run.options import RunOptions
from ocl_inductor.sweep.status import Status


@pytest.mark.parametrize("name", ["transformers/bert", "timm/byobnet"])
def test_a_family_is_right_without_the_host(name: str) -> None:
    try:
        device = select_device("intel")
    except OpenCLInductorError:
        pytest.skip("no OpenCL device 'intel' here")
    (row,) = Selection(families=f"^{name}$").rows()
    backend = Backend("opencl").on_device(device.short_name)
    job = RunOptions().job("accuracy", row, "inference", (backend,))
    report = check_accuracy(job, None, lambda *_, **__: None)
    assert report.status is Status.PASS, report
    assert report.details["fallbacks"] == report.details["graph_breaks"] == 0
    assert report.details["launches"] >= 1 and report.details["metric"] == "allclose"
    assert report.details["built"], "what was built is said"
