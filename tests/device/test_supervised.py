"""Commands that run a script have exit codes of their own, however the script's process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from ocl_inductor.cli import main; main()"]
WAITS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


@pytest.mark.parametrize("command", ["profile", "explain"])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(7)", "ended with exit code 7, at once"),
        ("import os; os._exit(0)", "ended with exit code 0, at once"),
        ("import os; os.kill(os.getpid(), 9)", "ended with SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "ended with SIGSEGV"),
        ("import sys; sys.exit(3)", "ended with exit code 3"),
    ],
)
def test_a_process_that_just_ends(
    tmp_path: Path, clean_env: dict[str, str], command: str, code: str, said: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [*COMMAND, command, str(script)], env=clean_env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert said in done.stderr and "script.py" in done.stderr


def test_what_happens_after_the_report_does_not_count(
    tmp_path: Path, clean_env: dict[str, str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, os, torch\natexit.register(lambda: os._exit(9))\n"
        "torch.compile(torch.sin, backend='opencl')(torch.randn(9))\n"
    )
    done = subprocess.run(
        [*COMMAND, "explain", str(script)], env=clean_env, capture_output=True, text=True
    )
    assert done.returncode == 0 and "1 graph" in done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_script(
    tmp_path: Path, clean_env: dict[str, str], number: signal.Signals
) -> None:
    parent, child = _waiting(tmp_path, clean_env)
    parent.send_signal(number)
    _, errors = parent.communicate(timeout=60)
    assert parent.returncode == 1
    assert ("SIGTERM" if number == signal.SIGTERM else "an interrupt") in errors
    assert _gone(child)


def test_no_script_outlives_the_command(tmp_path: Path, clean_env: dict[str, str]) -> None:
    parent, child = _waiting(tmp_path, clean_env)
    parent.kill()
    parent.communicate(timeout=60)
    assert _gone(child)


def _waiting(folder: Path, env: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    """A command whose script waits, and the process of the script."""
    script = folder / "script.py"
    script.write_text(WAITS)
    parent = subprocess.Popen(
        [*COMMAND, "profile", str(script)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stderr is not None
    while not (line := parent.stderr.readline()).strip().isdecimal():
        assert line, "the script never ran"
    child = int(line)
    assert child != parent.pid
    return parent, child


def _gone(process: int) -> bool:
    for _ in range(200):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
