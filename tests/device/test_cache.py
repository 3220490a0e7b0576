"""Kernel binaries on disk: found again, and a bad entry is a miss, never an error."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch._dynamo.utils import counters

from ocl_inductor.device.select import select_device
from ocl_inductor.plan.kernel_code import KernelCode
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.runtime.build.programs import kernel_key
from ocl_inductor.runtime.store import entry as store_entry

pytestmark = pytest.mark.usefixtures("unchained")

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _program(x: torch.Tensor) -> torch.Tensor:
    return (x.softmax(-1) @ x.t()).cumsum(0)


def _run(driver: str, folder: Path, **options: object) -> tuple[int, int]:
    """Compile afresh and compare with eager; hits and misses of the cache."""
    torch.compiler.reset()
    counters.clear()
    function = compiled(_program, driver, cache_dir=str(folder), **options)
    x = random(9, 17)
    torch.testing.assert_close(function(x), _program(x), rtol=1e-4, atol=1e-4)
    return counters["opencl"]["cache_hits"], counters["opencl"]["cache_misses"]


def _entries(folder: Path) -> list[Path]:
    return sorted((folder / "kernels").rglob("*.kernel"))


@each_driver
def test_second_compilation_hits(driver: str, tmp_path: Path) -> None:
    hits, misses = _run(driver, tmp_path)
    assert hits == 0
    assert misses > 1
    assert len(_entries(tmp_path)) == misses
    assert _run(driver, tmp_path) == (misses, 0)


def test_drivers_do_not_share_entries(tmp_path: Path) -> None:
    for driver in two_drivers():
        hits, misses = _run(driver, tmp_path)
        assert (hits, misses > 0) == (0, True)


def test_switched_off(tmp_path: Path) -> None:
    for _ in range(2):
        hits, misses = _run(two_drivers()[0], tmp_path, cache=False)
        assert (hits, misses > 0) == (0, True)
    assert not (tmp_path / "kernels").exists()


def _truncated(key: str, data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(key: str, data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def _empty(key: str, data: bytes) -> bytes:
    return b""


def _other_format(key: str, data: bytes) -> bytes:
    return b"something else\n" + data


def _whole_but_nonsense(key: str, data: bytes) -> bytes:
    """An entry that is intact but that the driver must reject."""
    entry = store_entry.decode(key, data)
    return store_entry.encode(dataclasses.replace(entry, binary=b"\x7fELF" + b"nonsense" * 100))


def _without_its_kernel(key: str, data: bytes) -> bytes:
    """An intact entry with a binary that the driver takes, but in which there is another kernel."""
    entry = store_entry.decode(key, data)
    metadata = dataclasses.replace(entry.metadata, symbol="absent")
    return store_entry.encode(dataclasses.replace(entry, metadata=metadata))


@pytest.mark.parametrize(
    "damage",
    [_truncated, _flipped, _empty, _other_format, _whole_but_nonsense, _without_its_kernel],
    ids=lambda f: f.__name__[1:],
)
@each_driver
def test_damaged_entries_are_misses(
    damage: Callable[[str, bytes], bytes], driver: str, tmp_path: Path
) -> None:
    _, misses = _run(driver, tmp_path)
    before = {p: p.read_bytes() for p in _entries(tmp_path)}
    for p, data in before.items():
        p.write_bytes(damage(p.parent.name + p.stem, data))
    assert _run(driver, tmp_path) == (0, misses)
    # The bad entries were replaced by good ones.
    assert _run(driver, tmp_path) == (misses, 0)


@each_driver
def test_entry_of_another_kernel_is_not_taken(driver: str, tmp_path: Path) -> None:
    _, misses = _run(driver, tmp_path)
    entries = _entries(tmp_path)
    contents = [p.read_bytes() for p in entries]
    for p, data in zip(entries, contents[1:] + contents[:1], strict=True):
        p.write_bytes(data)
    assert _run(driver, tmp_path) == (0, misses)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    hits, misses = _run(two_drivers()[0], blocked)
    assert (hits, misses > 0) == (0, True)


def test_key_depends_on_everything() -> None:
    device = select_device(two_drivers()[0])
    kernel = Kernel(KernelCode("k", (), (), (), ""), ("-cl-std=CL1.2",))
    other = dataclasses.replace(kernel.code, body=" ")
    keys = {
        kernel_key(kernel, device),
        kernel_key(dataclasses.replace(kernel, code=other), device),
        kernel_key(dataclasses.replace(kernel, options=("-cl-std=CL3.0",)), device),
        kernel_key(kernel, select_device(two_drivers()[-1])),
    }
    assert len(keys) == (4 if len(two_drivers()) > 1 else 3)
    # What does not enter the binary does not enter the key.
    assert kernel_key(dataclasses.replace(kernel, fx_nodes=("add",)), device) in keys


_CHILD = """
import sys, torch
from torch._dynamo.utils import counters
def f(x):
    return (x.softmax(-1) @ x.t()).cumsum(0)
x = torch.randn(9, 17)
g = torch.compile(f, backend="opencl", options={"device": sys.argv[1]})
torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-4)
print(counters["opencl"]["cache_hits"], counters["opencl"]["cache_misses"])
"""


@pytest.mark.parametrize("driver", two_drivers()[:1])  # tests/faults does it on both
def test_processes_at_the_same_time(driver: str, clean_env: dict[str, str]) -> None:
    """Several processes fill one cache; another one finds everything in it."""
    command = [sys.executable, "-c", _CHILD, driver]
    running = [
        subprocess.Popen(command, env=clean_env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for child in running:
        assert child.wait(timeout=240) == 0
        child.stdout.close()  # type: ignore[union-attr]
    done = subprocess.run(command, env=clean_env, capture_output=True, text=True, timeout=240)
    hits, misses = map(int, done.stdout.split())
    assert hits > 0
    assert misses == 0
    folder = Path(clean_env["OCL_INDUCTOR_CACHE_DIR"])
    assert not list(folder.rglob("*.tmp"))


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_folder_is_private(tmp_path: Path) -> None:
    _run(two_drivers()[0], tmp_path)
    for p in (tmp_path / "kernels").rglob("*"):
        assert p.stat().st_mode & 0o022 == 0, p
