"""Drivers that are on a machine without an .icd file that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocl_inductor.device.driver import unregistered as module
from ocl_inductor.device.driver.unregistered import unregistered


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of libraries there is, with CUDA's in it."""
    monkeypatch.setattr(module, "LIBRARY_FOLDERS", ())
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nonexistent:{tmp_path}")
    (tmp_path / "libcuda.so.1").touch()
    return tmp_path


def test_the_newest_version_is_found(folder: Path) -> None:
    for version in ("99.2", "580.9.1", "580.159.04"):
        (folder / f"libnvidia-opencl.so.{version}").touch()
    assert unregistered([]) == [str(folder / "libnvidia-opencl.so.580.159.04")]


def test_links_are_followed(folder: Path) -> None:
    (folder / "libnvidia-opencl.so.580.1").touch()
    (folder / "libnvidia-opencl.so.1").symlink_to("libnvidia-opencl.so.580.1")
    assert unregistered(["/elsewhere/libpocl.so.2"]) == [str(folder / "libnvidia-opencl.so.580.1")]


def test_one_that_is_named_already_is_not_named_again(folder: Path) -> None:
    (folder / "libnvidia-opencl.so.1").touch()
    assert unregistered(["libnvidia-opencl.so.1"]) == []
    assert unregistered(["/usr/lib/libnvidia-opencl.so.580"]) == []


def test_without_the_library_that_it_needs(folder: Path) -> None:
    (folder / "libnvidia-opencl.so.1").touch()
    (folder / "libcuda.so.1").unlink()
    assert unregistered([]) == []


def test_a_link_to_nothing(folder: Path) -> None:
    (folder / "libnvidia-opencl.so.1").symlink_to("libnvidia-opencl.so.580.1")
    assert unregistered([]) == []
