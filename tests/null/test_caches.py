"""What Linux lists of a processor's caches: device/cpu/caches.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocl_inductor.device.cpu import caches
from ocl_inductor.device.cpu.caches import Caches


def listed(folder: Path, *caches: tuple[str, str, str]) -> None:
    for n, facts in enumerate(caches):
        place = folder / f"index{n}"
        place.mkdir()
        for name, text in zip(("level", "type", "size"), facts, strict=True):
            (place / name).write_text(text + "\n")


def test_caches_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_LISTED", tmp_path)
    listed(
        tmp_path,
        ("1", "Data", "48K"),
        ("1", "Instruction", "64K"),
        ("2", "Unified", "2048K"),
        ("3", "Unified", "107520K"),
    )
    assert caches.cpu_caches() == Caches(48 << 10, 2 << 20, 105 << 20)
    line = tmp_path / "index0" / "coherency_line_size"
    for told, nbytes in (("128", 128), ("0", 64), ("100", 64), ("a line", 64)):
        line.write_text(told + "\n")
        assert caches.cpu_caches() == Caches(48 << 10, 2 << 20, 105 << 20, nbytes)


def test_what_is_not_told_is_as_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_LISTED", tmp_path)
    assert caches.cpu_caches() == Caches()
    listed(tmp_path, ("1", "Data", "many"), ("2", "Unified", "512K"))
    assert caches.cpu_caches() == Caches(l2=512 << 10)
