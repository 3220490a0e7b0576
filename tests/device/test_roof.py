"""The measured roof of a device, and the file that keeps it."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from ocl_inductor.device.device import Device
from ocl_inductor.settings import Settings
from ocl_inductor.tune import roof as roofs
from ocl_inductor.tune.roof import Roof, kept_roof, measure, measured_roof

SOME = Roof(30.0, 400.0, 300.0, 1000.0)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.resolve(options={"cache_dir": tmp_path / "cache", "cache": True})


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices that were measured, in place of measuring."""
    done: list[str] = []

    def pretend(device: Device) -> Roof:
        done.append(device.short_name)
        return SOME

    monkeypatch.setattr(roofs, "measure", pretend)
    return done


def test_it_measures_rates_of_this_world(device: Device) -> None:
    if device.short_name in ("rusticl", "oclgrind"):
        pytest.skip("a simulator: far too slow to measure")
    roof = measure(device)
    # Wide bounds: below any computer's of this century, above any that there is.
    assert 0.5 < roof.bandwidth_gb_s < 20_000
    assert roof.bandwidth_gb_s <= roof.cache_gb_s < 1_000_000
    assert 1 < roof.gflop_s < 1_000_000


def test_it_is_measured_once(device: Device, settings: Settings, measurements: list[str]) -> None:
    assert kept_roof(device, settings) is None
    assert measured_roof(device, settings) == measured_roof(device, settings) == SOME
    assert len(measurements) == 1
    assert kept_roof(device, settings) == SOME


def test_measuring_again_keeps_the_better_rates(
    device: Device, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([SOME, Roof(40.0, 300.0, 200.0, 1000.0)])
    monkeypatch.setattr(roofs, "measure", lambda device: next(found))
    measured_roof(device, settings)
    better = Roof(40.0, 400.0, 300.0, 1000.0)
    assert measured_roof(device, settings, again=True) == better
    assert kept_roof(device, settings) == better


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"key": "another"}', "\x00\xff", "half"],
    ids=["empty", "cut", "list", "foreign", "binary", "half"],
)
def test_a_damaged_file_is_measured_again(
    device: Device, settings: Settings, measurements: list[str], damage: str
) -> None:
    measured_roof(device, settings)
    (path,) = (settings.cache_dir / "roofs").glob("*.json")
    text = path.read_text()
    path.write_bytes((text[: len(text) // 2] if damage == "half" else damage).encode("latin-1"))
    assert kept_roof(device, settings) is None
    assert measured_roof(device, settings) == SOME
    assert len(measurements) == 2 and path.read_text() == text


@pytest.mark.parametrize("rate", ["-1.0", "0.0", "NaN", "Infinity", '"fast"', "null"])
def test_impossible_rates_are_damage(
    device: Device, settings: Settings, measurements: list[str], rate: str
) -> None:
    measured_roof(device, settings)
    (path,) = (settings.cache_dir / "roofs").glob("*.json")
    path.write_text(path.read_text().replace("400.0", rate))
    assert kept_roof(device, settings) is None


def test_nothing_is_kept_without_a_cache(
    device: Device, settings: Settings, measurements: list[str]
) -> None:
    off = Settings.resolve(options={"cache_dir": settings.cache_dir, "cache": False})
    assert measured_roof(device, off) == SOME
    assert not settings.cache_dir.exists()


def test_a_folder_that_cannot_be_made_is_no_error(
    device: Device, tmp_path: Path, measurements: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    blocked = Settings.resolve(options={"cache_dir": tmp_path / "file", "cache": True})
    assert measured_roof(device, blocked) == SOME
    assert os.listdir(tmp_path) == ["file"]


def test_least_time() -> None:
    roof = Roof(bandwidth_gb_s=10.0, gflop_s=100.0)
    assert math.isclose(roof.least_ns(flops=1000, nbytes=10), 10)
    assert math.isclose(roof.least_ns(flops=10, nbytes=1000), 100)
    near = Roof(10.0, 100.0, cache_gb_s=50.0, cache_bytes=1000)
    assert math.isclose(near.least_ns(flops=10, nbytes=1000), 20)
    assert math.isclose(near.least_ns(flops=10, nbytes=1010), 101)
