"""Every candidate that a lowering offers the tuner gives right numbers: on each driver."""

from __future__ import annotations

import pytest
import torch
from lowered import DeviceHarness
from tunable import CASES, SIMT, asked_by

from ocl_inductor.device.device import Device
from ocl_inductor.settings import Settings
from ocl_inductor.tune.tuner import Tuner

#: Those of test_tuning.py are tried there in more forms.
NAMES = [name for name in CASES if name not in ("gemm", "conv")]


@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_is_right(on: tuple[Device, str], name: str) -> None:
    device, profile = on
    if profile == "simt" and name not in SIMT:
        pytest.skip("has no such template")
    if device.info.platform_name == "rusticl":
        pytest.skip("takes minutes to build so many")
    torch.manual_seed(0)
    for make in CASES[name]:
        harness = DeviceHarness(device, profile, amx=False)
        ((spec, candidates),) = asked_by(harness, make())
        assert spec.name == name and len(candidates) > 1
        tuner = Tuner(device, harness.ctx.device, Settings.resolve())
        assert tuner.measure(spec, candidates).keys() == set(range(len(candidates)))
