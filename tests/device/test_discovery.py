"""Finding drivers and choosing devices, in fresh interpreters, and the facts of what is here."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from agreement import two_drivers

from benchmarks.drivers import is_present
from ocl_inductor.device import probe
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver import discovery
from ocl_inductor.device.select import list_devices, select_device
from ocl_inductor.errors import DeviceNotFoundError
from ocl_inductor.settings import Settings

LIST = (
    "import os\nfrom ocl_inductor.device.select import list_devices\n"
    "for d in list_devices(): print(d.short_name)\n"
    "assert os.environ.get('OCL_ICD_VENDORS') == os.environ.get('WANT'), 'leaked'\n"
)


def _run(code: str, env: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**env, **more}, capture_output=True, text=True
    )


def _all_have_asked() -> None:
    """Wait for the threads that ask devices for their facts."""
    for thread in threading.enumerate():
        if thread.name == "ocl_inductor device":
            thread.join()


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def test_both_wheels_are_found_with_a_clean_environment(clean_env: dict[str, str]) -> None:
    done = _run(LIST, clean_env)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert len(set(found)) == len(found), f"a driver is there twice: {found}"
    if _installed("intel-opencl-rt"):
        assert found[0] == "intel"
    if _installed("pocl-binary-distribution"):
        assert "pocl-3.0" in found


def test_works_when_pyopencl_came_first(clean_env: dict[str, str]) -> None:
    assert _run("import pyopencl\n" + LIST, clean_env).stdout == _run(LIST, clean_env).stdout


def test_users_vendor_folder_is_left_alone(clean_env: dict[str, str], tmp_path: Path) -> None:
    folder = str(tmp_path)
    done = _run(LIST, clean_env, OCL_ICD_VENDORS=folder, WANT=folder)
    assert done.returncode == 0, done.stderr
    assert "intel" not in done.stdout.split()


def test_unwritable_cache_folder_is_no_obstacle(clean_env: dict[str, str], tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    done = _run(LIST, clean_env, OCL_INDUCTOR_CACHE_DIR=str(blocker / "below"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == _run(LIST, clean_env).stdout


def test_no_device_error(clean_env: dict[str, str], tmp_path: Path) -> None:
    # A library that does not exist: an empty folder would leave what lies beside the loader.
    code = (
        "from ocl_inductor.device.select import select_device\n"
        "from ocl_inductor.errors import NoDeviceError\n"
        "try: select_device()\n"
        "except NoDeviceError as e: print(e)\n"
    )
    done = _run(code, clean_env, OCL_ICD_VENDORS=str(tmp_path / "libnothing.so"))
    assert 'pip install "ocl-inductor[cpu]"' in done.stdout, done.stderr


def test_command_lists_devices(clean_env: dict[str, str]) -> None:
    command = "from ocl_inductor.cli import main; main()"
    run = [sys.executable, "-c", command, "devices"]
    done = subprocess.run([*run, "--json"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [r["chosen"] for r in rows] == [True] + [False] * (len(rows) - 1)
    table = subprocess.run(run, env=clean_env, capture_output=True, text=True)
    assert table.returncode == 0 and rows[0]["spec"] in table.stdout


def test_placeholder_icd_is_repaired(tmp_path: Path) -> None:
    vendors = tmp_path / "etc" / "OpenCL" / "vendors"
    vendors.mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libdriver.so"
    library.write_text("")
    icd = vendors / "x.icd"
    icd.write_text("/no/such/prefix/lib/libdriver.so\n")
    assert discovery._read_icd(icd).library == str(library)
    icd.write_text("/no/such/prefix/lib/libother.so\n")
    assert not discovery._read_icd(icd).library
    icd.write_text("libsystem.so.1")
    assert discovery._read_icd(icd).library == "libsystem.so.1"


def test_the_loader_finds_in_its_folder_what_we_name_and_nothing_else() -> None:
    with discovery.vendor_folder(["a.so", "b.so"]) as folder:
        assert [p.read_text() for p in sorted(folder.iterdir())] == ["a.so\n", "b.so\n"]
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_unknown_device_lists_what_is_there() -> None:
    with pytest.raises(DeviceNotFoundError) as caught:
        select_device("no-such-device")
    for device in list_devices():
        assert str(device) in str(caught.value)
    with pytest.raises(DeviceNotFoundError):
        select_device("cpu:99")


def test_selection() -> None:
    devices = list_devices()
    assert select_device() is devices[0] is list_devices()[0]
    cpus = [d for d in devices if d.kind == "cpu"]
    for number, device in enumerate(cpus):
        assert select_device(f"CPU:{number}") is device


def test_facts(device: Device, device_name: str) -> None:
    info = device.info
    assert select_device(device_name.upper()) is device
    assert pickle.loads(pickle.dumps(info)) == info
    hash(info)
    assert info.profile == ("vector" if info.kind == "cpu" and info.vector_width > 1 else "simt")
    assert info.vector_width in (1, 4, 8, 16)
    assert info.base_address_align_bytes > 0
    assert (1, 0) <= info.opencl_c_version <= (3, 0)
    assert info.compute_units > 0 and info.max_work_group_size > 0
    assert info.driver_version in info.key and info.name in info.key


def test_forced_profile_and_memory(device: Device) -> None:
    info = device.info
    simt = info.for_settings(Settings(profile="simt", memory="discrete"))
    assert (simt.profile, simt.vector_width) == ("simt", 1)
    assert not simt.unified_memory and not simt.zero_copy
    vector = info.for_settings(Settings(profile="vector"))
    assert vector.profile == "vector" and vector.vector_width >= 4
    assert info.for_settings(Settings()) == info


def test_zero_copy_answer_is_remembered(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    runs = []

    def handles() -> tuple[object, object]:
        runs.append(1)
        return device.context, device.queue

    first = probe.zero_copy_works("key", handles)
    assert probe.zero_copy_works("key", handles) is first and len(runs) == 1
    # Facts of the device may be asked for meanwhile, by what an earlier test began.
    answers = (p for p in (tmp_path / "probe").iterdir() if "zero_copy" in p.read_text())
    (answer,) = (p for p in answers if json.loads(p.read_text())["key"].endswith("\nkey"))
    answer.write_text("{dama")
    assert probe.zero_copy_works("key", handles) is first and len(runs) == 2


def test_failing_self_test_means_no_zero_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))

    def handles() -> tuple[object, object]:
        raise RuntimeError("driver is broken")

    assert probe.zero_copy_works("broken", handles) is False


def test_tester_is_asked_first(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another process, where it cannot answer."""
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    asked = []

    def apart(question: str, names: object) -> bool:
        asked.append(question)
        return False

    def broken() -> bool:
        raise OSError("it ended")

    monkeypatch.setattr(probe, "_tested_in_child", apart)

    def works(key: str, tester: Callable[[], bool]) -> bool:
        return probe.zero_copy_works(key, lambda: (None, None), device.names, tester)

    assert works("one", lambda: True) and not asked
    assert not works("two", broken) and asked == ["zero_copy"]
    assert not works("two", lambda: True) and asked == ["zero_copy"]
    assert works("one", broken)  # remembered, as the other is


_FIRST_USE = """
import sys, torch
from ocl_inductor import compile
from ocl_inductor.device.select import select_device
from ocl_inductor.runtime.build.builders import Builders

_, driver, says = sys.argv
if says == "no":
    Builders.test = lambda self: False
captures = []
capture = compile.capture
compile.capture = lambda *args, **how: captures.append(args) or capture(*args, **how)
model, x = torch.nn.Linear(33, 17).eval(), torch.randn(5, 33)
function = torch.compile(model, backend="opencl", options={"device": driver})
with torch.no_grad():
    torch.testing.assert_close(function(x), model(x))
assert torch._dynamo.utils.counters["opencl"]["kernels_built_in_child"]
print(len(captures), select_device(driver).info.zero_copy)
"""


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(("says", "works"), [("yes", "True"), ("no", "False")])
def test_first_compilation_asks_the_worker_that_is_there(
    driver: str, says: str, works: str, tmp_path: Path
) -> None:
    """Its answer is a fact before anything is compiled, which is done once."""
    processes = {"OCL_INDUCTOR_COMPILE_PROCESSES": "2"}
    environment = {**os.environ, "OCL_INDUCTOR_CACHE_DIR": str(tmp_path), **processes}
    command = [sys.executable, "-c", _FIRST_USE, driver, says]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == [f"1 {works}"], done.stderr


def test_facts_are_found_out_once_and_meanwhile(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = device.info
    _all_have_asked()
    asked: list[str] = []

    def answer(key: str, *_: object) -> bool:
        asked.append(threading.current_thread().name)
        return True

    monkeypatch.setattr("ocl_inductor.device.device.zero_copy_works", answer)
    monkeypatch.setattr("ocl_inductor.device.device.amx_works", lambda *_: False)
    fresh = Device(device.cl_device)
    fresh.ask_in_background()
    _all_have_asked()
    info = fresh.info
    fresh.ask_in_background()  # nothing is left to ask
    assert info.key == known.key
    assert asked == (["ocl_inductor device"] if info.unified_memory else [])


def test_facts_that_cannot_be_found_out_are_an_error_for_whoever_uses_them(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _all_have_asked()

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("ocl_inductor.device.device.DeviceInfo.from_pyopencl", refuse)
    fresh = Device(device.cl_device)
    fresh.ask_in_background()
    with pytest.raises(OSError, match="no"):
        _ = fresh.info


def test_simulator_reports_invalid_writes(oclgrind_env: dict[str, str]) -> None:
    code = (
        "import numpy as np\n"
        "from ocl_inductor.device.select import select_device\n"
        "from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl\n"
        "cl, device = load_pyopencl(), select_device('oclgrind')\n"
        "assert device.info.profile == 'simt' and not device.info.unified_memory\n"
        "buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 16)\n"
        "source = '__kernel void k(__global float *a) { a[get_global_id(0)] = 1; }'\n"
        "kernel = cl.Program(device.context, source).build(cache_dir=False).k\n"
        "kernel(device.queue, (5,), None, buffer)\n"
        "device.queue.finish()\n"
    )
    done = _run(code, oclgrind_env)
    assert done.returncode == 0, done.stderr
    assert "Invalid write of size 4" in done.stderr


TAKEN = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
from ocl_inductor.device.select import select_device
from ocl_inductor.errors import DriverNotOpenedError
try:
    print(select_device(*sys.argv[2:]).short_name)
except DriverNotOpenedError as error:
    print("refused", *error.facts["taken"])
"""


@pytest.mark.skipif(not is_present("intel"), reason="needs a driver that depends on a library")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_a_driver_whose_library_another_has_taken(
    clean_env: dict[str, str], tmp_path: Path
) -> None:
    """As after ``import openvino``, whose libtbb.so.12 lacks what Intel's runtime calls."""
    library = tmp_path / "libtbb.so.12"
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    subprocess.run(
        ["gcc", "-shared", "-Wl,-soname,libtbb.so.12", "-o", library, source], check=True
    )
    code = [sys.executable, "-c", TAKEN, str(library)]
    asked = subprocess.run([*code, "intel"], env=clean_env, capture_output=True, text=True)
    assert asked.stdout.split() == ["refused", str(library)], asked.stderr
    free = subprocess.run(code, env=clean_env, capture_output=True, text=True)
    if is_present("pocl"):
        assert free.stdout.startswith("pocl"), free.stderr
        assert str(library) in free.stderr and "is used instead" in free.stderr
    else:
        assert free.stdout.split() == ["refused", str(library)], free.stderr
