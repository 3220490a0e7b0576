"""``ocl-inductor doctor`` and ``devices``: what is wrong is found, said, and advised on."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ocl_inductor.cli import main
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.discovery import icd_files
from ocl_inductor.device.select import list_devices, select_device
from ocl_inductor.observe.diagnosis import discovery, self_test
from ocl_inductor.observe.diagnosis.finding import Finding
from ocl_inductor.support import child_process
from ocl_inductor.tune import roof as roofs
from ocl_inductor.tune.roof import Roof

COMMAND = "from ocl_inductor.cli import main; main()"
WITHOUT_PYOPENCL = "import sys; sys.modules['pyopencl'] = None; " + COMMAND


def apart(
    env: dict[str, str], *arguments: str, code: str = COMMAND, **more: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, where the loader looks anew."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**env, **more},
        capture_output=True,
        text=True,
    )


def findings(done: subprocess.CompletedProcess[str]) -> list[Finding]:
    return [Finding(**f) for f in json.loads(done.stdout)["findings"]]


def invoke(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(main, arguments, env=env)


# -- the way to a device -----------------------------------------------------------------------


def test_no_driver_at_all(clean_env: dict[str, str], tmp_path: Path) -> None:
    # A library that does not exist: an empty folder would leave what lies beside the loader.
    nothing = str(tmp_path / "libnothing.so")
    done = apart(clean_env, "doctor", "--json", OCL_ICD_VENDORS=nothing)
    assert done.returncode == 1 and not json.loads(done.stdout)["usable"]
    found = findings(done)
    (variable,) = [f for f in found if nothing in f.what]
    assert variable.state == "problem" and "Unset OCL_ICD_VENDORS" in variable.advice
    (listing,) = [f for f in found if f.step == "platforms and devices" and f.state == "problem"]
    assert 'pip install "ocl-inductor[cpu]"' in listing.advice
    assert found[-1].state == "problem" and "no OpenCL device" in found[-1].what


@pytest.mark.parametrize("command", ["doctor", "devices"])
def test_no_pyopencl(clean_env: dict[str, str], command: str) -> None:
    done = apart(clean_env, command, code=WITHOUT_PYOPENCL)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    said = done.stdout + done.stderr
    assert ("pip install pyopencl" if command == "doctor" else "ocl-inductor doctor") in said


def test_no_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ImportError("libOpenCL.so.1: cannot open shared object file: No such file")

    monkeypatch.setattr(discovery, "load_pyopencl", fails)
    found = list(discovery.discovery())
    assert found[0].state == "problem" and "ocl-icd-libopencl1" in found[0].advice
    assert {f.step for f in found[1:]} <= {"environment", "drivers"} | {
        f.step for f in found if f.step.startswith("drivers in")
    }


def icd(folder: Path, text: str) -> Finding:
    (folder / "some.icd").write_text(text)
    (file,) = icd_files(folder)
    return discovery._file("step", file)


def test_broken_icd_files(tmp_path: Path) -> None:
    assert "is empty" in icd(tmp_path, "\n").what
    missing = icd(tmp_path, "/no/such/libdriver.so\n")
    assert missing.state == "warning" and "/no/such/libdriver.so" in missing.what
    assert "Reinstall" in missing.advice
    (tmp_path / "libtext.so").write_text("no library")
    foreign = icd(tmp_path, str(tmp_path / "libtext.so"))
    assert foreign.state == "warning" and "cannot be loaded" in foreign.what
    unknown = icd(tmp_path, "libnobody-has-this.so.7")
    assert unknown.state == "warning" and "cannot open shared object" in unknown.what


def test_a_missing_dependency_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "libtbb.so.12: cannot open shared object file: No such file or directory"
    monkeypatch.setattr(discovery, "_load_error", lambda library: said)
    (tmp_path / "libdriver.so").write_text("")
    assert "Install what provides libtbb.so.12" in icd(tmp_path, f"{tmp_path}/libdriver.so").advice


def test_a_library_that_kills_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_LOAD", "import os; os.kill(os.getpid(), 11)")
    assert "SIGSEGV" in discovery._load_error("libdriver.so")


@pytest.mark.parametrize("what", ["empty", "missing", "own"])
def test_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    folder = tmp_path / "vendors"
    if what != "missing":
        folder.mkdir()
    if what == "own":
        (folder / "x.icd").write_text("libpossible.so")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(folder))
    (found,) = [f for f in discovery._environment() if "OCL_ICD_VENDORS" in f.what]
    assert found.state == ("warning" if what == "own" else "problem")
    assert "Unset OCL_ICD_VENDORS" in found.advice


def system(tmp_path: Path, maker: str) -> Path:
    """A system with one GPU, whose device file nobody may open."""
    card = tmp_path / "sys/class/drm/card0/device"
    card.mkdir(parents=True)
    (card / "vendor").write_text(maker)
    (tmp_path / "dev/dri").mkdir(parents=True)
    (tmp_path / "dev/dri/renderD128").write_text("")
    return tmp_path


def test_a_gpu_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(discovery, "list_devices", list)
    without, closed = discovery._hardware(system(tmp_path, "0x1002\n"))
    assert without.state == "warning" and "mesa-opencl-icd" in without.advice
    assert "renderD128" in closed.what and "usermod -aG" in closed.advice


def test_a_cache_folder_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert discovery._cache_folder().state == "warning"


def test_an_old_driver(device: Device) -> None:
    assert discovery._device("it", device.info).state == "ok"
    old = dataclasses.replace(device.info, device_version="OpenCL 1.1 Old", opencl_c_version=(1, 1))
    found = discovery._device("it", old)
    assert found.state == "warning" and "Update the driver" in found.advice


# -- self-tests --------------------------------------------------------------------------------


def test_every_driver_passes_what_it_needs(device: Device) -> None:
    found = list(self_test.self_test(device))
    assert len(found) == len(self_test.TESTS)
    assert [f.what for f in found if f.state in ("problem", "warning")] == []


def test_a_wrong_result_is_a_problem(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(device: Device, body: str, out: Any, *inputs: Any, **more: Any) -> None:
        out[:] = 0

    monkeypatch.setattr(self_test, "_run", nothing)
    found = {f.what.split(":")[0]: f for f in self_test.self_test(device)}
    assert found["run"].state == found["atomics"].state == "problem"
    assert "OCL_INDUCTOR_DEVICE" in found["run"].advice
    if device.info.fp64:
        assert found["float64"].state == "warning" and "float32" in found["float64"].advice


def test_the_doctor_survives_a_driver_that_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = json.dumps({"step": "s", "state": "ok", "what": "build", "advice": ""})
    code = f"import os; print({line!r}, flush=True); os.kill(os.getpid(), 11)"
    device = list_devices()[0]
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(child_process, "command", lambda module, *arguments: command)
    built, died = self_test.run_in_child(0, device)
    assert built.state == "ok"
    assert died.state == "problem" and died.what == "run: the driver ended the process (SIGSEGV)"


def test_a_broken_default_is_no_usable_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from ocl_inductor.cli import doctor

    def broken(number: int, device: Device) -> list[Finding]:
        return [Finding("self-test", "problem" if number == 0 else "ok", "run: wrong")]

    monkeypatch.setattr(sys.modules[doctor.callback.__module__], "run_in_child", broken)
    monkeypatch.setattr(sys.modules[doctor.callback.__module__], "discovery", list)
    result = invoke("doctor", COLUMNS="80")
    others = [d.short_name for d in list_devices()[1:]]
    assert result.exit_code == 1
    assert "fails its self-test" in result.output
    assert all(name in result.output for name in others)


def test_the_whole_of_it(clean_env: dict[str, str]) -> None:
    done = apart(clean_env, "doctor", COLUMNS="80")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in done.stdout
    for device in list_devices():
        if device.short_name != "rusticl":  # it shows itself only when asked to
            assert f"self-test of {device.short_name}" in lines
    assert lines[-1].strip()
    assert not [line for line in lines if line.startswith("  X ")]


# -- devices -----------------------------------------------------------------------------------


def test_devices_say_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("devices", COLUMNS="80", OCL_INDUCTOR_DEVICE="")
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    text = " ".join(result.output.split())
    for device in list_devices():
        assert device.info.driver_version in text
    assert text.count("* ") == 2 and "no device was named" in text


def test_why_a_device_was_chosen() -> None:
    name = list_devices()[-1].short_name
    chosen = [
        d
        for d in json.loads(invoke("devices", "--json", OCL_INDUCTOR_DEVICE=name).output)
        if d["chosen"]
    ]
    assert [d["spec"] for d in chosen] == [name]
    assert chosen[0]["why"] == f"{name!r} was asked for: the match by spec"
    result = invoke("devices", OCL_INDUCTOR_DEVICE="no such device")
    assert result.exit_code == 1 and "Available" in result.output
    result = invoke("devices", "--json", OCL_INDUCTOR_DEVICE="no such device")
    assert result.exit_code == 1 and "Available" in result.stderr
    assert not any(d["chosen"] for d in json.loads(result.stdout))


def test_verbose_adds_extensions_and_reasons() -> None:
    short, long = invoke("devices").output, invoke("devices", "--verbose").output
    assert "extensions" not in short
    for device in list_devices():
        assert all(name in long for name in device.info.extensions)


def test_the_roof_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(roofs, "measure", lambda device: Roof(12.5, 345.0, 67.0, 1000.0))
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    assert "not measured yet" in invoke("devices").output
    assert "12.5 GB/s from memory" in invoke("devices", "--roof").output
    assert "345 GFLOP/s" in invoke("devices").output
    kept = json.loads(invoke("devices", "--json").output)
    assert all(d["roof"]["gflop_s"] == 345 for d in kept)


def test_help_needs_no_torch(clean_env: dict[str, str]) -> None:
    code = "import sys\ntry: from ocl_inductor.cli import main; main(['--help'])\nfinally: "
    done = apart(clean_env, code=code + "assert 'torch' not in sys.modules")
    assert done.returncode == 0 and "doctor" in done.stdout, done.stderr
    assert select_device() is not None
