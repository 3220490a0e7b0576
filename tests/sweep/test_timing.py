"""Timing waits for what disturbs it."""

from __future__ import annotations

import subprocess
import sys

from ocl_inductor.sweep.timing import REST_SECONDS, wait_for_children


def test_rounds_wait_for_child_processes_to_rest() -> None:
    program = "import sys\nprint(flush=True)\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert busy.stdout is not None
        busy.stdout.readline()  # it has begun
        assert not wait_for_children(limit_s=3 * REST_SECONDS)
    finally:
        busy.kill()
        busy.communicate()
    assert wait_for_children(limit_s=3 * REST_SECONDS)
