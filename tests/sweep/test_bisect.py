"""``sweep bisect``: the search, commits of a repository, versions of a package."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from records import record
from rows import write_row

from ocl_inductor.cli import main
from ocl_inductor.sweep.bisect.bisect import NoRegressionError, UntestableError, bisect
from ocl_inductor.sweep.bisect.candidates import CandidateError, Commits, Versions
from ocl_inductor.sweep.record import Record
from ocl_inductor.sweep.status import Status

NAMES = [f"c{i}" for i in range(12)]


def measured(ms_of: Callable[[int], float]) -> Callable[[str], Record]:
    return lambda name: record(ms=ms_of(int(name[1:])))


@pytest.mark.parametrize("culprit", range(1, 12))
def test_the_first_bad_one_is_named(culprit: int) -> None:
    noise = [0.0, 0.03, -0.02]
    measure = measured(lambda i: (10 if i < culprit else 13) * (1 + noise[i % 3]))
    found = bisect(NAMES, measure, "abs_latency", 0.07)
    assert found.suspects == (f"c{culprit}",)
    assert found.last_good == f"c{culprit - 1}"
    assert len(found.tried) <= 6, "a binary search"


def test_a_falling_metric_and_a_status() -> None:
    measure = measured(lambda i: 5.0 if i < 7 else 10.0)  # half the speedup
    assert bisect(NAMES, measure, "speedup", 0.07).suspects == ("c7",)

    def checked(name: str) -> Record:
        bad = int(name[1:]) >= 4
        return record(status=Status.FAIL_ACCURACY if bad else Status.PASS)

    assert bisect(NAMES, checked, "status", 0.07).suspects == ("c4",)


def test_what_cannot_be_measured_stays_suspect() -> None:
    def measure(name: str) -> Record:
        index = int(name[1:])
        if index in (5, 6):
            raise CandidateError(name, "does not build")
        return record(ms=10 if index < 6 else 20)

    found = bisect(NAMES, measure, "abs_latency", 0.07)
    assert found.suspects == ("c5", "c6", "c7")
    skipped = next(t for t in found.tried if t.bad is None)
    assert skipped.message.endswith("does not build")


def test_a_doubtful_value_is_measured_again() -> None:
    calls: dict[str, int] = {}

    def measure(name: str) -> Record:
        calls[name] = calls.get(name, 0) + 1
        index = int(name[1:])
        if index == 2 and calls[name] == 1:
            return record(ms=15.0)  # an outlier near the middle of 10 and 20
        return record(ms=10.0 if index < 3 else 20.0)

    assert bisect(NAMES[:5], measure, "abs_latency", 0.07).suspects == ("c3",)
    assert calls["c2"] == 3


def test_ends_that_prove_nothing() -> None:
    with pytest.raises(NoRegressionError, match="does not regress"):
        bisect(NAMES, measured(lambda i: 10 + i * 0.01), "abs_latency", 0.07)
    failing = lambda name: record(status=Status.OOM, message="too large")  # noqa: E731
    with pytest.raises(UntestableError, match="too large"):
        bisect(NAMES, failing, "abs_latency", 0.07)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, *words]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Six commits of a model that adds ``VALUE``; the fourth makes it wrong when compiled."""
    folder = tmp_path / "repository"
    (folder / "rows").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(6):
        add = "1e-3 if torch.compiler.is_compiling() else 0.0" if number >= 3 else "0.0"
        (folder / "themodel.py").write_text(
            "import torch\nfrom torch import nn\n\n"
            "class Model(nn.Module):\n    def forward(self, x):\n"
            f"        return torch.sin(x) + ({add})  # {number}\n"
        )
        row = write_row(folder / "rows", "themodel", "Small", modes=["inference"],
                        why={"modes": "a toy"})  # fmt: skip
        row.write_text(row.read_text().replace("toys:Small", "themodel:Model"))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"change {number}")
    return folder


def test_commits(repository: Path) -> None:
    commits = Commits(repository, "HEAD~5", "HEAD", setup="echo built > built")
    names = commits.names()
    assert len(names) == 6
    assert commits.describe(names[3]).endswith("change 3")
    with commits.ready(names[2]) as place:
        assert "# 2" in (place.folder / "themodel.py").read_text()
        assert (place.folder / "built").exists()
        assert place.environment["PYTHONPATH"].startswith(str(place.folder))
    assert not place.folder.exists()
    assert git(repository, "worktree", "list").count("\n") == 0, "nothing is left behind"
    with pytest.raises(CandidateError, match="does not come after"):
        Commits(repository, "HEAD", "HEAD~5").names()
    with pytest.raises(CandidateError):
        Commits(repository, "nothing", "HEAD").names()
    with (
        pytest.raises(CandidateError, match="sh"),
        Commits(repository, "HEAD~5", "HEAD", setup="exit 3").ready(names[1]),
    ):
        pass


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_on_a_repository(repository: Path) -> None:
    words = ["sweep", "bisect", "--good", "HEAD~5", "--bad", "HEAD", "--repo", str(repository)]
    words += ["--metric", "status", "--", "--configs", "rows", "--only", "themodel"]
    words += ["--inference", "--accuracy", "--backend", "aot_eager"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert result.output.strip().splitlines()[-1].endswith("change 3")


def make_wheel(folder: Path, version: str) -> None:
    """A wheel of the package ``bisected``, whose only module says its version."""
    info = f"bisected-{version}.dist-info"
    files = {
        "bisected.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: bisected\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record_lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record_lines.append(f"{name},sha256={digest.decode()},{len(text)}")
    record_lines.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = "\n".join(record_lines) + "\n"
    with zipfile.ZipFile(folder / f"bisected-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("1.0", "1.2", "1.10"):
        make_wheel(tmp_path, version)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    versions = Versions("bisected", "1.0", "1.10", ("1.10", "1.2", "0.9"))
    assert versions.names() == ["1.0", "1.2", "1.10"]
    with versions.ready("1.2") as place:
        target = place.environment["PYTHONPATH"].split(":")[0]
        assert "'1.2'" in Path(target, "bisected.py").read_text()
    with pytest.raises(CandidateError), versions.ready("7.0"):
        pass
    with pytest.raises(CandidateError, match="does not come after"):
        Versions("bisected", "2", "1", ("1", "2")).names()
