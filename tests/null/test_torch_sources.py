"""PyTorch's digest of its own sources, remembered between processes."""

from __future__ import annotations

import json
import os
import pkgutil
from pathlib import Path

import pytest
from torch._inductor import codecache

from ocl_inductor.capture.warm import torch_sources
from ocl_inductor.capture.warm.torch_sources import _state_of_sources

TRUE_DIGEST = bytes(range(32))


class TorchKey:
    """PyTorch's function, with what it has to do counted."""

    def __init__(self) -> None:
        self.known: bytes | None = None
        self.hashed = 0

    def __call__(self) -> bytes:
        if self.known is None:
            self.hashed += 1
            self.known = TRUE_DIGEST
        return self.known

    def set(self, value: bytes) -> None:
        if self.known is not None:
            raise RuntimeError("value already set")
        self.known = value


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in the place of PyTorch, with one inside it."""
    root = tmp_path / "torch"
    for folder in (root, root / "nn"):
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    (root / "nn" / "layers.py").write_text("a = 1\n")
    (root / "lib").mkdir()  # no package: PyTorch does not look there either
    (root / "lib" / "x.so").write_text("")
    monkeypatch.setattr(torch_sources, "_ROOT", root)
    return root


def a_process(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> TorchKey:
    """What a fresh process would do."""
    key = TorchKey()
    monkeypatch.setattr(codecache, "torch_key", key)
    torch_sources.provide_digest.cache_clear()
    torch_sources.provide_digest(cache_dir)
    assert key() == TRUE_DIGEST
    return key


def test_second_process_hashes_nothing(package: Path, tmp_path: Path, monkeypatch) -> None:
    cache_dir = tmp_path / "cache"
    assert a_process(cache_dir, monkeypatch).hashed == 1
    assert a_process(cache_dir, monkeypatch).hashed == 0
    (file,) = (cache_dir / "torch").iterdir()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("change", ["edit", "add", "remove", "replace"])
def test_changed_sources_are_hashed(change: str, package: Path, tmp_path: Path, monkeypatch):
    cache_dir, file = tmp_path / "cache", package / "nn" / "layers.py"
    a_process(cache_dir, monkeypatch)
    if change == "edit":
        file.write_text("a = 22\n")
    elif change == "add":
        (package / "nn" / "more.py").write_text("")
    elif change == "remove":
        file.unlink()
    else:  # by one of the same size and time
        other = package / "nn" / "other"
        other.write_text("a = 2\n")
        os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
        other.replace(file)
    assert a_process(cache_dir, monkeypatch).hashed == 1
    assert a_process(cache_dir, monkeypatch).hashed == 0


def test_files_outside_of_packages_do_not_count(package: Path) -> None:
    before = _state_of_sources()
    (package / "lib" / "x.so").write_text("longer")
    assert _state_of_sources() == before


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"key": 1, "value": "zz"}'])
def test_damaged_file_is_a_miss(content: str, package: Path, tmp_path: Path, monkeypatch) -> None:
    cache_dir = tmp_path / "cache"
    a_process(cache_dir, monkeypatch)
    (file,) = (cache_dir / "torch").iterdir()
    file.write_text(content)
    assert a_process(cache_dir, monkeypatch).hashed == 1
    assert json.loads(file.read_text())["value"] == TRUE_DIGEST.hex()


def test_folder_that_others_can_write_is_not_used(package: Path, tmp_path: Path, monkeypatch):
    cache_dir = tmp_path / "cache"
    a_process(cache_dir, monkeypatch)
    (cache_dir / "torch").chmod(0o777)
    assert a_process(cache_dir, monkeypatch).hashed == 1


def test_folder_that_cannot_be_made(package: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "cache").write_text("a file")
    assert a_process(tmp_path / "cache", monkeypatch).hashed == 1


def test_known_already(package: Path, tmp_path: Path, monkeypatch) -> None:
    cache_dir = tmp_path / "cache"
    a_process(cache_dir, monkeypatch)
    key = TorchKey()
    key()
    monkeypatch.setattr(codecache, "torch_key", key)
    torch_sources.provide_digest.cache_clear()
    torch_sources.provide_digest(cache_dir)  # no error


def test_every_file_that_pytorch_hashes_counts() -> None:
    def hashed(roots: list[str], prefix: str = "") -> set[str]:
        found = set()
        for module in pkgutil.iter_modules(roots, prefix):
            spec = module.module_finder.find_spec(module.name, None)  # type: ignore[call-arg]
            assert spec is not None and spec.origin is not None
            found.add(spec.origin)
            if module.ispkg:
                found |= hashed(list(spec.submodule_search_locations or ()), f"{spec.name}.")
        return found

    root = torch_sources._ROOT
    inductor = Path(codecache.__file__).parent
    wanted = hashed([str(root)])
    for extra in (inductor / "codegen/aoti_runtime/interface.cpp", inductor / "script.ld"):
        if extra.exists():
            wanted.add(str(extra))
    seen = {line.rsplit(" ", 4)[0] for line in torch_sources._files(root)}
    assert len(wanted) > 1000 and wanted <= seen
