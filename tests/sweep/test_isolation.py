"""How a job ends: limits on time and memory, crashes, and no process left behind."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.isolation import run_job
from ocl_inductor.sweep.status import Status, ended_early


@pytest.fixture
def interpreter(tmp_path: Path):
    """Makes a stand-in for Python that runs ``body``, whatever module it is asked for."""

    def make(body: str) -> str:
        script = tmp_path / "interpreter"
        script.write_text(f"#!{sys.executable} -S\n{body}\n")
        script.chmod(0o755)
        return str(script)

    return make


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "oom", "SIGKILL"),
        ("import time; time.sleep(60)", "timeout", "longer than 2 s"),
        ("b = bytearray(300 << 20); import time; time.sleep(60)", "oom", "more than 0.2 GiB"),
        ("import sys; print('why', file=sys.stderr); sys.exit(3)", "error", "why"),
        ('print(\'{"event": "cold", "compile_s": 1}\')', "ok", ""),
        ('print(\'{"event": "phase", "pha\', end="")', "ok", ""),
    ],
)
def test_how_a_job_ends(interpreter, tmp_path: Path, body: str, status: str, message: str) -> None:
    seconds = 2 if "timeout" in status else 120
    outcome = run_job(
        {"kind": "none"}, tmp_path, Limits(seconds, 200 << 20), python=interpreter(body)
    )
    assert (outcome.status, message in outcome.message) == (status, True), outcome
    if "cold" in body:
        assert outcome.first("cold") == {"compile_s": 1}


def test_a_log_names_no_folder_of_the_machine(interpreter, tmp_path: Path) -> None:
    place = pytest.__file__
    scratch = os.path.join(tempfile.gettempdir(), "sweep-a1", "x.py")
    body = f"import sys; print({place!r}, {__file__!r}, {scratch!r}, file=sys.stderr)"
    outcome = run_job({}, tmp_path, Limits(60), python=interpreter(body))
    assert outcome.log.split() == ["pytest/__init__.py", os.path.relpath(__file__), "sweep-a1/x.py"]


def test_children_of_a_job_end_with_it(interpreter, tmp_path: Path) -> None:
    body = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"  # holds our standard output open
        'print(\'{"event": "child", "pid": %d}\' % child.pid, flush=True)'
    )
    outcome = run_job({}, tmp_path, Limits(60), python=interpreter(body))
    assert outcome.status == "ok"
    child = outcome.first("child")
    assert child is not None
    deadline = time.monotonic() + 30
    while _alive(child["pid"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child["pid"])


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_job_has_caches_of_its_own(interpreter, tmp_path: Path) -> None:
    body = (
        "import os\n"
        'print(\'{"event": "env", "cache": "%s"}\' % os.environ[\'OCL_INDUCTOR_CACHE_DIR\'])'
    )
    outcome = run_job({}, tmp_path / "caches", Limits(60), python=interpreter(body))
    assert outcome.first("env") == {"cache": str(tmp_path / "caches" / "ocl_inductor")}
    outcome = run_job({}, None, Limits(60), python=interpreter(body))
    assert outcome.first("env") == {"cache": os.environ["OCL_INDUCTOR_CACHE_DIR"]}


@pytest.mark.parametrize(
    ("outcome", "phase", "status"),
    [
        ("crashed", "load", Status.MODEL_FAIL_TO_LOAD),
        ("crashed", "eager", Status.EAGER_FAIL_TO_RUN),
        ("crashed", "backend", Status.FAIL_TO_RUN),
        ("error", "start", Status.INFRA_ERROR),
        ("oom", "eager", Status.EAGER_OOM),
        ("oom", "backend", Status.OOM),
        ("timeout", "eager", Status.TIMEOUT),
    ],
)
def test_the_phase_says_who_is_to_blame(outcome: str, phase: str, status: Status) -> None:
    assert ended_early(outcome, phase) is status
