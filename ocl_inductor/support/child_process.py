"""Modules of this package that run in a child process, with this process's import path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def command(module: str, *arguments: str) -> list[str]:
    """A fresh interpreter that runs a module of this package."""
    return [sys.executable, "-m", module, *arguments]


def environment() -> Mapping[str, str]:
    """Variables with which it finds the same packages, and nothing in the working folder."""
    root = str(Path(__file__).parents[2])  # this very package, wherever it was found
    path = os.pathsep.join([root, *(p for p in sys.path if p)])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONSAFEPATH": "1",
        # numpy's idle threads would occupy cores by busy waiting.
        "OPENBLAS_NUM_THREADS": "1",
    }


def answer(
    module: str, *arguments: str, seconds: float, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module to its end, with further ``variables`` in its environment.

    Raises:
        OSError, subprocess.SubprocessError: it could not be started, or timed out.
    """
    return subprocess.run(
        command(module, *arguments),
        env={**environment(), **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
    )
