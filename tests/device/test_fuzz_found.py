"""Programs that ``make fuzz`` once found wrong: each file of ``tests/fuzz_found``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from agreement import poisoned_memory, two_drivers

from conformance.compare import problem

FOUND = sorted((Path(__file__).parents[1] / "fuzz_found").glob("*.py"))


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzz_found_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("device", two_drivers())
@pytest.mark.parametrize("path", FOUND, ids=[p.stem for p in FOUND])
def test_a_program_that_was_wrong(path: Path, device: str) -> None:
    found = _loaded(path)
    ours = found.compiled(device=device, profile=found.PROFILE)
    for sizes in found.CALLS:
        with poisoned_memory():
            actual = found.results(ours, sizes)
        expected = found.results(found.program, sizes)
        assert problem(actual, expected, None) is None
        layouts = [[t.stride() for t in r if hasattr(t, "stride")] for r in (actual, expected)]
        assert layouts[0] == layouts[1]
