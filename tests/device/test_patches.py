"""Results are right with each patch off that can be, and with all of them; docs/patches.md."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agreement import two_drivers
from torch._functorch._aot_autograd import autograd_cache

from ocl_inductor.patches.switch import PATCHES_OFF
from ocl_inductor.patches.table import PATCHES

OPTIONAL = frozenset(p.name for p in PATCHES if p.required is None)
#: Not seen on every machine and driver: tests/null/test_patches.py has them switched off.
UNSEEN = frozenset({"cpu_name", "amx_permission"})
#: In force only together with another one.
NEEDS = {"plan_cache": {"plan_cache_keys", "inductor_passes", "torch_digest"}}
WORKER = Path(__file__).with_name("patches_worker.py")


def run(device: str, off: str, cache: Path) -> dict[str, Any]:
    """What the worker says, in a process with empty caches."""
    environment = {
        **os.environ,
        PATCHES_OFF: off,
        "OCL_INDUCTOR_CACHE_DIR": str(cache / "ours"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "torch"),
    }
    done = subprocess.run(
        [sys.executable, str(WORKER), device],
        env=environment, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def check(found: dict[str, Any]) -> None:
    """No model further from float64 than twice what eager is, give or take partial sums."""
    assert len(found["errors"]) == 6
    for name, pairs in found["errors"].items():
        assert pairs
        for ours, eager in pairs:
            assert ours <= 2 * eager + 2e-6, (name, ours, eager)


@functools.cache
def seen_here(device: str, cache: Path) -> frozenset[str]:
    """The patches that are in force on this machine when none is off."""
    found = run(device, "", cache)
    check(found)
    assert found["plan_hits"] > 0
    return frozenset(found["in_force"])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    return seen_here(two_drivers()[0], tmp_path_factory.mktemp("none"))


def test_all_are_in_force(seen: frozenset[str]) -> None:
    """Else the tests below would not notice whether the switch does anything."""
    depends = {"written_pages", "pyopencl_platforms", "malloc_trim", "driver_code_pages"}
    if not hasattr(autograd_cache.AOTAutogradCacheDetails, "_init_fx_graph_hash_details"):
        depends.add("inductor_passes")  # PyTorch 2.11 and 2.12 have nothing to leave out
    assert seen >= OPTIONAL - UNSEEN - depends
    assert seen <= OPTIONAL
    if sys.platform == "linux":
        assert "malloc_trim" in seen


@pytest.mark.parametrize("device", two_drivers())
def test_all_off(device: str, tmp_path: Path) -> None:
    found = run(device, "all", tmp_path)
    check(found)
    assert not found["in_force"]
    assert not found["plan_hits"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_one_off(name: str, seen: frozenset[str], tmp_path: Path) -> None:
    found = run(two_drivers()[0], name, tmp_path)
    check(found)
    assert set(found["in_force"]) == seen - {name} - NEEDS.get(name, set())


def test_one_that_has_to_be_on(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="cannot be switched off: kernels in a forked child"):
        run(two_drivers()[0], "process_hooks", tmp_path)
