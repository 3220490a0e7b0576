"""Two local processes under torchrun (see ddp_worker.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from agreement import two_drivers

WORKER = Path(__file__).with_name("ddp_worker.py")


@pytest.mark.slow
@pytest.mark.parametrize("driver", two_drivers())
def test_two_processes_train_as_one(driver: str, clean_env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(WORKER), driver]
    run = subprocess.run(
        command, env={**clean_env, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found = re.search(r"graphs (\d+), fallbacks (\d+)", run.stdout)
    assert found is not None
    # The model is cut where a bucket is full, and each part has a forward and a backward.
    assert int(found[1]) >= 4
    assert int(found[2]) == 0
