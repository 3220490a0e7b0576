"""Libraries of names alone, and whether a folder will do for them."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from ocl_inductor.runtime.build.stub_library import stub_library
from ocl_inductor.runtime.build.unused_variant import can_leave_out

linux = pytest.mark.skipif(sys.platform != "linux", reason="libraries are ELF files on Linux")


@linux
@pytest.mark.parametrize("count", [0, 1, 2, 7, 300])
def test_names(count: int, tmp_path: Path) -> None:
    names = [f"_kernel_{n}_of{'_many' * (n % 5)}" for n in range(count)]
    path = tmp_path / "stub.so"
    path.write_bytes(stub_library(names))
    library = ctypes.CDLL(str(path))
    assert all(ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names)
    assert not hasattr(library, "_kernel_")


@linux
def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_leave_out(tmp_path) and not list(tmp_path.iterdir())
    assert not can_leave_out(tmp_path / "missing")
    monkeypatch.setattr(ctypes, "CDLL", unmapped)
    assert not can_leave_out(tmp_path) and not list(tmp_path.iterdir())


def unmapped(path: str) -> None:
    """What a folder that is mounted without the right to execute has to say."""
    raise OSError(f"{path}: failed to map segment from shared object")


def test_another_kind_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_bytes(b"\x7fELF\x01\x01" + bytes(100))
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ValueError, match="no 64-bit"):
        stub_library(["name"])
    assert not can_leave_out(tmp_path)
