"""What a bisection searches: the commits of a repository, or the versions of a package."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion, Version

from ocl_inductor.errors import OpenCLInductorError

#: The folder that holds this package: commits of other repositories are measured with it.
OWN = Path(__file__).resolve().parents[3]


class CandidateError(OpenCLInductorError):
    """Candidates that cannot be listed, or one that cannot be prepared."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}", what=what)


@dataclass(frozen=True, slots=True)
class MeasuringPlace:
    """Where a candidate is measured: working directory and variables of its processes."""

    folder: Path
    environment: dict[str, str]


class Candidates(Protocol):
    """An ordered list of names, each of which can be made ready to be measured."""

    def names(self) -> list[str]: ...
    def describe(self, name: str) -> str: ...
    def ready(self, name: str) -> contextlib.AbstractContextManager[MeasuringPlace]: ...


def _run(command: Sequence[str], folder: Path | None = None) -> str:
    """Standard output of a command.

    Raises:
        CandidateError: it failed.
    """
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise CandidateError(command[0], str(error)) from error
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip())[-400:]
        raise CandidateError(" ".join(command[:4]), reason)
    return done.stdout


def _python_path(*folders: Path) -> str:
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join([*map(str, folders), *([given] if given else [])])


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits after ``good`` up to ``bad``, oldest first, ``good`` before them.

    A commit is checked out into a worktree of its own and comes first on the import path; the
    repository's working tree is not touched.

    Attributes:
        setup: a shell command to run in each checkout before it is measured, such as a build.
    """

    repository: Path
    good: str
    bad: str
    setup: str | None = None

    def names(self) -> list[str]:
        """
        Raises:
            CandidateError: no repository, no such commit, or ``bad`` does not come after ``good``.
        """
        good, bad = (
            _run(["git", "rev-parse", "--verify", f"{r}^{{commit}}"], self.repository).strip()
            for r in (self.good, self.bad)
        )
        listed = _run(
            ["git", "rev-list", "--reverse", "--topo-order", "--ancestry-path", f"{good}..{bad}"],
            self.repository,
        ).split()
        if not listed:
            raise CandidateError("git", f"{self.bad} does not come after {self.good}")
        return [good, *listed]

    def describe(self, name: str) -> str:
        """Short hash, date and subject."""
        shape = "--format=%h %as %s"
        return _run(["git", "show", "--no-patch", shape, name], self.repository).strip()

    @contextlib.contextmanager
    def ready(self, name: str) -> Iterator[MeasuringPlace]:
        with tempfile.TemporaryDirectory(prefix="sweep-bisect-") as scratch:
            checkout = Path(scratch, "checkout")
            _run(
                ["git", "worktree", "add", "--quiet", "--detach", str(checkout), name],
                self.repository,
            )
            try:
                if self.setup is not None:
                    _run(["sh", "-c", self.setup], checkout)
                path = _python_path(checkout, OWN)
                yield MeasuringPlace(checkout, {"PYTHONPATH": path})
            finally:
                _run(["git", "worktree", "remove", "--force", str(checkout)], self.repository)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of a pip package from ``good`` to ``bad``, or those that are listed.

    A version is installed without its dependencies into a folder that comes first on the import
    path; the environment itself stays as it is.

    Attributes:
        listed: the versions to search, instead of asking pip; in order.
    """

    package: str
    good: str
    bad: str
    listed: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """
        Raises:
            CandidateError: pip knows no such package or versions, or they are in the wrong order.
        """
        try:
            low, high = Version(self.good), Version(self.bad)
            known = [Version(v) for v in (self.listed or self._published())]
        except InvalidVersion as error:
            raise CandidateError(self.package, str(error)) from error
        if low >= high:
            raise CandidateError(self.package, f"{self.bad} does not come after {self.good}")
        between = {v for v in known if low <= v <= high} | {low, high}
        return [str(v) for v in sorted(between)]

    def _published(self) -> list[str]:
        text = _run([sys.executable, "-m", "pip", "index", "versions", self.package])
        match = re.search(r"Available versions: (.*)", text)
        if match is None:
            raise CandidateError(self.package, "pip lists no versions")
        return [v.strip() for v in match[1].split(",")]

    def describe(self, name: str) -> str:
        return f"{self.package} {name}"

    @contextlib.contextmanager
    def ready(self, name: str) -> Iterator[MeasuringPlace]:
        with tempfile.TemporaryDirectory(prefix="sweep-bisect-") as scratch:
            target = Path(scratch, "packages")
            _run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                 "--disable-pip-version-check", "--target", str(target),
                 f"{self.package}=={name}"]
            )  # fmt: skip
            yield MeasuringPlace(Path(scratch), {"PYTHONPATH": _python_path(target, OWN)})
