"""A random part of ``make conformance``, over rows that are expected to pass."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from agreement import two_drivers

from ocl_inductor.device.select import list_devices

ROOT = Path(__file__).parents[2]

# Two samples of a row are the first and the last, which the expectations cover whatever --limit
# they were made with.

#: CPU seconds of rows, beside those that PyTorch's list takes to load: enough for a dozen rows.
SECONDS = 4


def seed_of_commit() -> int:
    """A number for what is checked out; a random one where that is not known."""
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return random.SystemRandom().randrange(1 << 32)
    return int(commit[:8], 16)


def check_slice(device: str, seed: int, results: Path, *options: str) -> None:
    """In a process of its own: it forks, which a process with OpenCL threads must not."""
    command = [sys.executable, "-m", "conformance", "--device", device, *options]
    command += ["--slice", str(seed), "--budget", str(SECONDS), "--limit", "2"]
    command += ["--results", str(results)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(" ".join(command))
    assert run.returncode == 0, f"seed {seed}, {device}\n{run.stdout}\n{run.stderr}"


@pytest.mark.timeout(400)
def test_a_random_slice_of_the_operators_is_as_expected(tmp_path: Path) -> None:
    """The seed chooses the driver too. Each commit has its own, so that a run can be repeated;
    ``OCL_INDUCTOR_TEST_SEED`` names another.
    """
    seed = int(os.environ.get("OCL_INDUCTOR_TEST_SEED") or seed_of_commit())
    device = random.Random(seed).choice(two_drivers())
    check_slice(device, seed, tmp_path / "results.jsonl")


@pytest.mark.timeout(400)
def test_a_random_slice_of_the_operators_runs_eagerly(tmp_path: Path) -> None:
    """On ``ocl`` tensors in memory of their own, which takes a driver with shared memory."""
    seed = int(os.environ.get("OCL_INDUCTOR_TEST_SEED") or seed_of_commit())
    shared = {d.short_name for d in list_devices() if d.info.shared_memory}
    devices = [name for name in two_drivers() if name in shared]
    if not devices:
        pytest.skip("no driver here has shared virtual memory")
    device = random.Random(seed).choice(devices)
    check_slice(device, seed, tmp_path / "results.jsonl", "--eager")


def test_rows_on_the_host_say_why() -> None:
    """From the compiler's warnings, of a new graph and of a stored plan."""
    code = (
        "import torch\n"
        "from conformance.fallbacks import FallbackLog\n"
        "log = FallbackLog()\n"
        "run = torch.compile(torch.linalg.svdvals, backend='opencl')\n"
        "run(torch.eye(3) * 2)\n"
        "print(log.found())\n"
    )
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        found = ast.literal_eval(ran.stdout)
        assert found
        assert all(found.values()), found
