"""``mode="max-autotune"``: candidates are tried on the device, wrong ones never win."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from benchmarks.drivers import PIP_DRIVERS, is_present
from ocl_inductor import tune
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.device.select import select_device
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.settings import Settings
from ocl_inductor.templates import render
from ocl_inductor.templates.blocking import Blocking
from ocl_inductor.templates.conv.conv import CONV, ConvParams
from ocl_inductor.templates.gemm.gemm import GEMM, GemmParams, gemm_trial
from ocl_inductor.templates.registry import SPECS
from ocl_inductor.templates.spec import (
    Hint,
    LaunchGrid,
    P,
    TemplateSpec,
    choices,
    tunable,
    tunable_fields,
)
from ocl_inductor.templates.trial import Trial
from ocl_inductor.tune.tuner import Tuner, tunable_templates

PRODUCT = GemmParams(
    m=37, n=50, k=29, batch=(2,), out_batch=(2,), out_order=(1, 0),
    a_layout="strided", a_offset=3, a_strides=(37 * 31, 31, 1),
    b_layout="panels", b_offset=0, b_strides=(0,),
    acc="float", tile=Blocking(1, 1, 1, 1),
)  # fmt: skip
CONVOLUTION = ConvParams(
    n=2, in_sizes=(9, 8), out_sizes=(5, 4), groups=2, icg=6, ocg=20,
    kernel=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(1, 1), transposed=False,
    x_offset=0, x_strides=(9 * 8 * 12, 8 * 12, 12, 1),
    acc="float", tile=Blocking(1, 1, 1, 1),
)  # fmt: skip


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


def candidates_of(tuner: Tuner, params: P) -> list[P]:
    return [dataclasses.replace(params, **c) for c in choices(tuner.info, params, int)]


def products(tuner: Tuner, **more: Any) -> list[GemmParams]:
    if tuner.info.profile == "simt":
        more |= {"b_layout": "strided", "b_offset": 1, "b_strides": (0, 51, 1)}
    return candidates_of(tuner, dataclasses.replace(PRODUCT, **more))


@EACH
def test_every_candidate_of_a_product_is_right(tuner: Tuner) -> None:
    candidates = products(tuner)
    assert len(candidates) > 3
    assert len(tuner.measure(GEMM, candidates)) == len(candidates)


@EACH
def test_every_candidate_of_a_product_of_packed_rows_is_right(tuner: Tuner) -> None:
    if tuner.info.profile == "simt":
        pytest.skip("the simt profile packs nothing")
    candidates = products(tuner, a_layout="panels", a_offset=0, a_strides=(1,))
    assert len(tuner.measure(GEMM, candidates)) == len(candidates)


@EACH
def test_every_candidate_of_a_convolution_is_right(tuner: Tuner) -> None:
    candidates = candidates_of(tuner, CONVOLUTION)
    assert len(tuner.measure(CONV, candidates)) == len(candidates)


@EACH
def test_every_candidate_of_a_convolution_that_packs_panels_is_right(tuner: Tuner) -> None:
    if tuner.info.profile == "simt":
        pytest.skip("the simt profile packs nothing")
    for strides in ((20 * 54, 1, 9, 54), (20 * 54, 6, 1, 54)):
        lying = {"w_layout": "strided", "w_offset": 3, "w_strides": strides}
        candidates = candidates_of(tuner, dataclasses.replace(CONVOLUTION, **lying))
        assert len(tuner.measure(CONV, candidates)) == len(candidates)


@EACH
def test_a_wrong_candidate_is_not_timed(tuner: Tuner) -> None:
    candidates = products(tuner)

    def wrong_for_the_second(p: GemmParams, random: np.random.Generator) -> Trial[GemmParams]:
        trial = gemm_trial(p, random)
        if p.tile == candidates[1].tile:
            trial = dataclasses.replace(trial, expected=trial.expected + 1e-3)
        return trial

    spec = dataclasses.replace(GEMM, trial=wrong_for_the_second)
    assert tuner.measure(spec, candidates[:3]).keys() == {0, 2}


@EACH
def test_a_choice_is_measured_once(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = products(tuner)
    asked = []

    def measure(self: Tuner, *_: Any) -> dict[int, float]:
        asked.append(1)
        return {0: 2.0, 1: 1.0, 2: 1.5}

    monkeypatch.setattr(Tuner, "measure", measure)
    assert tuner(GEMM, candidates) == 1
    assert tuner(GEMM, candidates) == 1
    assert len(asked) == 1
    for file in (tuner.settings.cache_dir / "tuned").iterdir():
        file.write_text("{")
    assert tuner(GEMM, candidates) == 1
    assert tuner(GEMM, [dataclasses.replace(c, m=38) for c in candidates]) == 1
    assert len(asked) == 3


@EACH
def test_what_is_hardly_faster_is_not_taken(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tuner, "measure", lambda *_: {0: 1.01, 1: 1.0})
    assert tuner(GEMM, products(tuner)) == 0


# -- the list of templates -----------------------------------------------------------------


def test_each_template_with_a_choice_can_be_tried() -> None:
    with_a_choice = [s for s in SPECS.values() if tunable_fields(s.params)]
    assert {GEMM.name, CONV.name} <= {s.name for s in with_a_choice}
    assert tunable_templates() == with_a_choice
    for spec in with_a_choice:
        assert spec.trial is not None, f"{spec.name} has tunable fields and no trial"


def test_the_tuner_names_no_template() -> None:
    """What is new in templates/ is known to it by the list of all templates alone."""
    for path in Path(tune.__file__).parent.glob("*.py"):
        words = re.findall(r'"(\w+)"', path.read_text())
        assert not SPECS.keys() & set(words), path


def runs(device: DeviceInfo, p: ScaledParams, hint: Hint) -> tuple[int, ...]:
    return tuple(n for n in (1, 2, 5) if n <= hint(p.n))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScaledParams(TemplateParams):
    """``n`` numbers, ``run`` to a work-item."""

    n: int
    run: int = dataclasses.field(metadata=tunable(runs))


def scaled_trial(p: ScaledParams, random: np.random.Generator) -> Trial[ScaledParams]:
    x = random.uniform(-1, 1, p.n).astype(np.float32)
    return Trial(p, (x,), 2 * x.astype(np.float64), 0.0)


SCALED: TemplateSpec[ScaledParams] = TemplateSpec(
    name="scaled",
    params=ScaledParams,
    file="scaled.cl.jinja",
    out_space=lambda p: (p.n,),
    tile=lambda device, profile, p: {},
    launch=lambda p, tile: LaunchGrid((-(-p.n // p.run),), (1,)),
    flops=lambda p: p.n,
    bytes=lambda p: 8 * p.n,
    reference=lambda x: 2 * x,
    trial=scaled_trial,
)
SOURCE = """
{% call kernel(1, 1, 1) %}
    const long first = item0 * {{ p.run }};
    for (long i = first; i < min(first + {{ p.run }}, (long){{ p.n }}); ++i) {
        {{ store(["i"], "2 * " ~ load(0, "i")) }}
    }
{% endcall %}
"""


@EACH
def test_another_template_is_tuned_as_it_is(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = render._environment()
    page = jinja2.DictLoader({SCALED.file: SOURCE})
    loader = jinja2.ChoiceLoader([environment.loader, page])  # type: ignore[list-item]
    monkeypatch.setattr(environment, "loader", loader)
    monkeypatch.setitem(SPECS, SCALED.name, SCALED)
    assert SCALED in tunable_templates()
    candidates = candidates_of(tuner, ScaledParams(n=7, run=0, acc="float"))
    assert [c.run for c in candidates] == [1, 2, 5]
    assert tuner.measure(SCALED, candidates).keys() == {0, 1, 2}
    assert tuner(SCALED, candidates) in range(3)
    assert len(list((tuner.settings.cache_dir / "tuned").iterdir())) == 1


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
