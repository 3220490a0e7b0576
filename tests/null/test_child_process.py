"""Child processes: output, limits, how they end, and nothing left (support/child_process.py)."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from ocl_inductor.support import child_process
from ocl_inductor.support.child_process import Limits, ProcessGuard, ending, last_line, run

#: Starts a process that would outlive it, says which, and waits.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def python(body: str) -> list[str]:
    return [sys.executable, "-S", "-c", body]


def gone(pid: int) -> bool:
    """Whether a process ends within ten seconds (its entry may wait for who started it)."""
    for _ in range(100):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("body", "code", "how"),
    [
        ("print(1)", 0, "exit status 0"),
        ("print(1); raise SystemExit(3)", 3, "exit status 3"),
        ("import os; print(1, flush=True); os.kill(os.getpid(), 11)", -11, "SIGSEGV"),
    ],
)
def test_output_and_ending(body: str, code: int, how: str) -> None:
    done = run(python(body), 60)
    assert (done.code, done.stdout, done.how) == (code, "1\n", how)


def test_what_is_late_ends_with_all_it_started() -> None:
    done = run(python(PARENT), 3)
    assert done.code is None and done.how == "its time limit"
    assert gone(int(done.stdout))


def test_output_that_a_process_outside_of_the_group_holds_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_process, "_SECONDS_TO_END", 1)
    body = PARENT.replace('sleep(600)"]', 'sleep(600)"], start_new_session=True')
    start = time.monotonic()
    done = run(python(body), 3)
    assert time.monotonic() - start < 60 and done.code is None
    psutil.Process(int(done.stdout)).kill()


def test_one_that_cannot_be_started() -> None:
    with pytest.raises(OSError):
        run(["/no/such/program"], 1)


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C does not reach the group, so the caller's handler ends it."""
    started = []

    def interrupt(process: subprocess.Popen[str], timeout: float | None = None) -> None:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(python("import time; time.sleep(600)"), 60)
    assert started[0].poll() == -9


@pytest.mark.parametrize(
    ("limits", "verdict"), [(Limits(1), "timeout"), (Limits(60, 1 << 20), "oom")]
)
def test_guard(limits: Limits, verdict: str) -> None:
    process = child_process.start(python(PARENT), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    guard = ProcessGuard(process, limits)
    guard.start()
    assert process.wait(30) == -9
    guard.stop()
    process.stdout.close()
    assert guard.verdict == verdict and gone(grandchild)


def test_group_is_its_own() -> None:
    process = child_process.start(python("import time; time.sleep(600)"))
    assert os.getpgid(process.pid) == process.pid != os.getpgrp()
    child_process.end_group(process)
    assert process.wait(30) == -9
    child_process.end_group(process)  # ended already: no error


def test_words_for_endings() -> None:
    assert [ending(c) for c in (0, 2, -9, -200)] == [
        "exit status 0", "exit status 2", "SIGKILL", "signal 200",
    ]  # fmt: skip
    assert last_line("a\nValueError: b\n \n") == "ValueError: b" and last_line(" \n") == ""


def test_own_memory_is_counted() -> None:
    assert child_process.resident_bytes(os.getpid()) > 10 << 20
