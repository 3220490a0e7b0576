"""A random part of ``make conformance``, over rows that are expected to pass."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from agreement import two_drivers

ROOT = Path(__file__).parents[2]

# Two samples of a row are the first and the last, which the expectations cover whatever --limit
# they were made with.

#: Enough for some dozens of rows.
SECONDS = 45


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("device", two_drivers())
def test_a_random_slice_of_the_operators_is_as_expected(device: str, tmp_path: Path) -> None:
    """In a process of its own: it forks, which a process with OpenCL threads must not."""
    seed = random.SystemRandom().randrange(1 << 32)
    command = [sys.executable, "-m", "conformance", "--device", device]
    command += ["--slice", str(seed), "--budget", str(SECONDS), "--limit", "2"]
    command += ["--results", str(tmp_path / "results.jsonl")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(" ".join(command))
    assert run.returncode == 0, f"seed {seed}\n{run.stdout}\n{run.stderr}"
