"""A driver that does not know the processor is told of a relative: cpu_name_override.py."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ocl_inductor.device import quirks
from ocl_inductor.device.driver import cpu_name_override
from ocl_inductor.patches.process import cpu_name
from ocl_inductor.patches.switch import PATCHES_OFF

POCL = quirks.Names(
    platform_name="Portable Computing Language",
    platform_version="OpenCL 3.0 PoCL 3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6",
    name="pthread-AMD EPYC",
    vendor="AuthenticAMD",
    driver_version="3.0-rc2",
)
ZEN_5 = "avx avx2 fma f16c bmi1 bmi2 movbe abm avx512f avx512cd avx512bw avx512dq avx512vl"
GENERIC = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"


class Driver:
    """Memory as a driver's: a description with pointers into nowhere, and one to a name."""

    def __init__(self, name: bytes, version: str = GENERIC) -> None:
        self.text = ctypes.create_string_buffer(name)
        self.other = ctypes.create_string_buffer(b"pthread")
        self.description = (ctypes.c_size_t * 200)(8, 2**64 - 1, 0, ctypes.addressof(self.other))
        self.description[80] = ctypes.addressof(self.text)
        address = ctypes.addressof(self.description)
        self.device: Any = SimpleNamespace(int_ptr=address, version=version)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_name_override, "_overridden", {})


def told(driver: Driver, names: quirks.Names = POCL) -> bytes:
    cpu_name_override.override_cpu_name(driver.device, names)
    return driver.text.value


def processor(flags: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "cpuinfo"
    path.write_text(
        f"processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu {flags}\nbugs\t: none\n"
    )
    monkeypatch.setattr("ocl_inductor.device.cpu.flags._CPUINFO", path)


@pytest.mark.parametrize(
    ("flags", "relative"),
    [
        (ZEN_5, b"skx"),
        (ZEN_5.replace("avx512dq", ""), b"haswell"),
        (ZEN_5.replace("fma", ""), b"x86-64"),
        ("sse2", b"x86-64"),
    ],
)
def test_the_best_relative_whose_instructions_it_has(
    flags: str, relative: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(flags, tmp_path, monkeypatch)
    driver = Driver(b"generic")
    assert told(driver) == relative
    assert driver.other.value == b"pthread"
    # Binaries for it are not those of another processor that the driver does not know.
    version = cpu_name_override.device_version(driver.device)
    assert version == f"{GENERIC} as {relative.decode()}"
    assert told(driver) == relative  # a second time


ZNVER3 = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-znver3"


def test_a_newer_processor_is_not_taken_for_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(ZEN_5, tmp_path, monkeypatch)  # as Zen 4's
    driver = Driver(b"znver3", ZNVER3)
    assert told(driver) == b"skx"
    assert cpu_name_override.device_version(driver.device) == f"{ZNVER3} as skx"


@pytest.mark.parametrize("name", ["znver3", "znver2", "haswell"])
def test_a_processor_that_the_driver_knows_keeps_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor("avx avx2 fma f16c bmi1 bmi2 movbe abm", tmp_path, monkeypatch)
    version = ZNVER3.replace("znver3", name)
    driver = Driver(name.encode(), version)
    assert told(driver) == name.encode()
    assert cpu_name_override.device_version(driver.device) == version


def test_other_drivers_are_left_alone() -> None:
    newer = quirks.Names("", "OpenCL 3.0 PoCL 6.0", "cpu", "", "6.0")
    driver = Driver(b"generic")
    assert told(driver, newer) == b"generic"
    assert cpu_name_override.device_version(driver.device) == GENERIC


def test_nothing_happens_where_the_name_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(ZEN_5, tmp_path, monkeypatch)
    driver = Driver(b"generic-cpu")
    assert told(driver) == b"generic-cpu"
    assert cpu_name_override.device_version(driver.device) == GENERIC


def test_nothing_happens_where_memory_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(ZEN_5, tmp_path, monkeypatch)
    monkeypatch.setattr(cpu_name, "_MEMORY", tmp_path / "missing")
    driver = Driver(b"generic")
    assert told(driver) == b"generic"


def test_nothing_happens_where_the_patch_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(ZEN_5, tmp_path, monkeypatch)
    monkeypatch.setenv(PATCHES_OFF, "cpu_name")
    driver = Driver(b"generic")
    assert told(driver) == b"generic"
    assert cpu_name_override.device_version(driver.device) == GENERIC
    monkeypatch.setenv(PATCHES_OFF, "")
    assert told(driver) == b"skx"
