"""``mode="max-autotune"``: candidates are tried on the device, wrong ones never win."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from benchmarks.drivers import PIP_DRIVERS, is_present
from ocl_inductor.device.select import select_device
from ocl_inductor.settings import Settings
from ocl_inductor.templates.blocking import candidate_blockings
from ocl_inductor.templates.simt_tiles import ProductWork, candidate_tiles
from ocl_inductor.tune import trials
from ocl_inductor.tune.tuner import Tuner

GEMM = {
    "m": 37, "n": 50, "k": 29, "batch": (2,), "out_batch": (2,), "out_order": (1, 0),
    "a_layout": "strided", "a_offset": 3, "a_strides": (37 * 31, 31, 1), "acc": "float",
    "m_hint": 37, "n_hint": 50,
}  # fmt: skip
CONV = {
    "n": 2, "in_sizes": (9, 8), "out_sizes": (5, 4), "groups": 2, "icg": 6, "ocg": 20,
    "kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "transposed": False,
    "x_offset": 0, "x_strides": (9 * 8 * 12, 8 * 12, 12, 1), "acc": "float", "pixels_hint": 40,
    "w_layout": "panels",
}  # fmt: skip


def combinations() -> list[Any]:
    """Building a dozen candidates takes seconds: two combinations by default."""
    by_default = {("pocl", "vector"), ("intel", "simt")}
    return [
        pytest.param(d, p, marks=[] if (d, p) in by_default else [pytest.mark.slow], id=f"{d}-{p}")
        for d in PIP_DRIVERS
        for p in ("vector", "simt")
    ]


EACH = pytest.mark.parametrize(("driver", "profile"), combinations())


@pytest.fixture
def tuner(driver: str, profile: str, tmp_path: Path) -> Tuner:
    if not is_present(driver):
        pytest.skip(f"no {driver!r} driver on this machine")
    device = select_device(driver)
    settings = Settings.resolve(options={"cache_dir": str(tmp_path), "profile": profile})
    return Tuner(device, device.info.for_settings(settings), settings)


def gemm_case(tuner: Tuner) -> tuple[dict[str, Any], list[dict[str, int]]]:
    if tuner.info.profile == "simt":
        layout = {"b_layout": "strided", "b_offset": 1, "b_strides": (0, 51, 1)}
        tiles = candidate_tiles(tuner.info, ProductWork("float", 37, 50, 2, GEMM["k"]))
        return {**GEMM, **layout}, [t.params() for t in tiles]
    blockings = candidate_blockings(tuner.info, "float", 37, 50, 2, 0)
    layout = {"b_layout": "panels", "b_offset": 0, "b_strides": (0,)}
    return {**GEMM, **layout}, [b.params() for b in blockings]


@EACH
def test_every_candidate_of_a_product_is_right(tuner: Tuner) -> None:
    params, candidates = gemm_case(tuner)
    assert len(candidates) > 3
    assert len(tuner.measure("gemm", params, candidates)) == len(candidates)


@EACH
def test_every_candidate_of_a_product_of_packed_rows_is_right(tuner: Tuner) -> None:
    if tuner.info.profile == "simt":
        pytest.skip("the simt profile packs nothing")
    params, candidates = gemm_case(tuner)
    params |= {"a_layout": "panels", "a_offset": 0, "a_strides": (1,)}
    assert len(tuner.measure("gemm", params, candidates)) == len(candidates)


@EACH
def test_every_candidate_of_a_convolution_is_right(tuner: Tuner) -> None:
    if tuner.info.profile == "simt":
        work = ProductWork("float", 40, 20, 2, 54)
        candidates = [t.params() for t in candidate_tiles(tuner.info, work)]
    else:
        candidates = [b.params() for b in candidate_blockings(tuner.info, "float", 40, 20, 2, 0)]
    assert len(tuner.measure("conv", CONV, candidates)) == len(candidates)


@EACH
def test_every_candidate_of_a_convolution_that_packs_panels_is_right(tuner: Tuner) -> None:
    if tuner.info.profile == "simt":
        pytest.skip("the simt profile packs nothing")
    candidates = [b.params() for b in candidate_blockings(tuner.info, "float", 40, 20, 2, 0)]
    for strides in ((20 * 54, 1, 9, 54), (20 * 54, 6, 1, 54)):
        params = {**CONV, "w_layout": "strided", "w_offset": 3, "w_strides": strides}
        assert len(tuner.measure("conv", params, candidates)) == len(candidates)


@EACH
def test_a_wrong_candidate_is_not_timed(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    params, candidates = gemm_case(tuner)
    spec, make = trials.TRIALS["gemm"]

    def wrong_for_the_second(p: Mapping[str, Any], random: np.random.Generator) -> trials.Trial:
        trial = make(p, random)
        assert trial is not None
        if all(p[k] == v for k, v in candidates[1].items()):
            trial = dataclasses.replace(trial, expected=trial.expected + 1e-3)
        return trial

    monkeypatch.setattr("ocl_inductor.tune.tuner.TRIALS", {"gemm": (spec, wrong_for_the_second)})
    assert tuner.measure("gemm", params, candidates[:3]).keys() == {0, 2}


@EACH
def test_a_choice_is_measured_once(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    params, candidates = gemm_case(tuner)
    asked = []

    def measure(self: Tuner, *_: Any) -> dict[int, float]:
        asked.append(1)
        return {0: 2.0, 1: 1.0, 2: 1.5}

    monkeypatch.setattr(Tuner, "measure", measure)
    assert tuner("gemm", params, candidates) == candidates[1]
    assert tuner("gemm", params, candidates) == candidates[1]
    assert len(asked) == 1
    for file in (tuner.settings.cache_dir / "tuned").iterdir():
        file.write_text("{")
    assert tuner("gemm", params, candidates) == candidates[1]
    assert tuner("gemm", {**params, "m": 38}, candidates) == candidates[1]
    assert len(asked) == 3


@EACH
def test_what_is_hardly_faster_is_not_taken(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    params, candidates = gemm_case(tuner)
    monkeypatch.setattr(Tuner, "measure", lambda *_: {0: 1.01, 1: 1.0})
    assert tuner("gemm", params, candidates) == candidates[0]


@pytest.mark.parametrize("driver", PIP_DRIVERS)
def test_only_max_autotune_measures(driver: str, tmp_path: Path) -> None:
    if not is_present(driver):
        pytest.skip(f"no {driver!r} driver on this machine")
    model = nn.Sequential(nn.Conv2d(4, 24, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(96, 40)).eval()
    x = torch.randn(130, 4, 5, 5)  # few rows would be a template that is not tuned, with few lanes
    counts = {}
    for mode in ("default", "max-autotune"):
        torch.compiler.reset()
        counters.clear()
        options = {"device": driver, "cache_dir": str(tmp_path), "mode": mode}
        compiled = torch.compile(model, backend="opencl", options=options)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        counts[mode] = dict(counters["opencl"])
    assert "tuned_kernels" not in counts["default"]
    assert counts["max-autotune"]["tuned_kernels"] == 2
    assert counts["max-autotune"]["tuning_trials"] > 4
