"""``ocl-inductor cache export|import``."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from cache_commands import entries, paths, run, run_json
from store_samples import sample

from ocl_inductor.runtime.store.entry import encode


@pytest.mark.parametrize("name", ["kernels.tar", "kernels.tar.gz"])
def test_carried_to_another_cache(filled: Path, tmp_path: Path, name: str) -> None:
    file, other = tmp_path / name, tmp_path / "other"
    run(filled, "export", file)
    assert run_json(other, "import", file) == {
        "imported": len(paths(filled)),
        "already_here": 0,
        "refused": [],
    }
    assert entries(other) == entries(filled)
    assert run_json(other, "import", file)["already_here"] == len(paths(filled))
    assert {f["status"] for f in run_json(other, "verify")} == {"ok"}


def test_export_chooses(filled: Path, tmp_path: Path) -> None:
    key = next(iter(paths(filled)))
    assert run_json(filled, "export", tmp_path / "one.tar", key[:12])["exported"] == 1
    some = run_json(filled, "export", tmp_path / "some.tar", "--operator", "softmax")["exported"]
    assert 0 < some < len(paths(filled))
    assert "--force" in run(filled, "export", tmp_path / "one.tar", exit_code=2).stderr
    run(filled, "export", tmp_path / "one.tar", "--force")
    run(filled, "export", tmp_path / "no folder" / "x.tar", exit_code=1)


def test_export_leaves_damaged_entries_out(folder: Path, tmp_path: Path) -> None:
    key, path = next(iter(paths(folder).items()))
    path.write_bytes(path.read_bytes()[:-1])
    facts = run_json(folder, "export", tmp_path / "x.tar", exit_code=1)
    assert facts["damaged"] == [key] and facts["exported"] == len(paths(folder)) - 1


def test_import_refuses_what_export_would_not_write(tmp_path: Path) -> None:
    good, other = sample(text="good"), sample(text="other")
    data = encode(good)
    name = f"{good.key}.kernel"
    outside = tmp_path / "outside"

    def file(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        return info, content

    def link(name: str, target: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return info, b""

    bad = [
        file(f"../{name}", data),
        file(f"{outside}/{name}", data),
        file(f"x/../../{name}", data),
        file(f"{other.key}.kernel", data),
        file(name, data[:-1]),
        file(name.replace(".kernel", ".used"), b"."),
        file("../../../../etc/passwd", b"root"),
        link(f"{other.key}.kernel", "/etc/passwd", tarfile.SYMTYPE),
        link(f"{other.key}.kernel", name, tarfile.LNKTYPE),
    ]
    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as tar:
        for info, content in [*bad, file(name, data)]:
            tar.addfile(info, io.BytesIO(content))
    before = sorted(p.name for p in tmp_path.iterdir())
    facts = run_json(tmp_path / "cache", "import", archive, exit_code=1)
    assert (facts["imported"], len(facts["refused"])) == (1, len(bad))
    assert list(paths(tmp_path / "cache")) == [good.key]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*before, "cache"])


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b broken"])
def test_import_of_something_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    error = run(tmp_path / "cache", "import", tmp_path / "x.tar", exit_code=1).stderr
    assert "not a readable archive" in error
    run(tmp_path, "import", tmp_path / "missing.tar", exit_code=2)
