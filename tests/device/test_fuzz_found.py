"""Programs that ``make fuzz`` once found wrong: each file of ``tests/fuzz_found``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from agreement import poisoned_memory, two_drivers

from conformance.compare import problem
from fuzz.again import compiled, load, memory_of, mode_of, results

ROOT = Path(__file__).parents[2]
FOUND = sorted((ROOT / "tests" / "fuzz_found").glob("*.py"))


@pytest.mark.parametrize("device", two_drivers())
@pytest.mark.parametrize("path", FOUND, ids=[p.stem for p in FOUND])
def test_a_program_that_was_wrong(path: Path, device: str) -> None:
    found = load(path)
    if mode_of(found):  # a process has one device `ocl`, and keeps it
        again = [sys.executable, "-m", "fuzz.again", str(path), device, found.PROFILE]
        command = [*again, memory_of(found)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
        assert ended.returncode == 0 and "agrees" in ended.stdout, ended.stderr[-2000:]
        return
    ours = compiled(found, device=device, profile=found.PROFILE, memory=memory_of(found))
    for sizes in found.CALLS:
        with poisoned_memory():
            actual = results(found, ours, sizes)
        expected = results(found, found.program, sizes)
        assert problem(actual, expected, None) is None
        layouts = [[t.stride() for t in r if hasattr(t, "stride")] for r in (actual, expected)]
        assert layouts[0] == layouts[1]
