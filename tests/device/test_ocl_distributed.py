"""The device ``ocl`` in two local processes that talk through gloo.

Where the host has the memory, gloo works in it; memory of the device's own is copied. Processes of
their own, as PyTorch keeps what takes its slot for such a device.
"""

from __future__ import annotations

import re

import pytest
from agreement import two_drivers
from two_processes import in_two_processes

from ocl_inductor.device.select import select_device


def cases(quick: str) -> list[object]:
    """The first of two drivers with one kind of memory always, the others with the slow tests."""
    return [
        pytest.param(name, memory, marks=[pytest.mark.slow] * (k > 0 or memory != quick))
        for k, name in enumerate(two_drivers())
        for memory in ("auto", "discrete")
        if memory == "auto" or select_device(name).info.shared_memory
    ]


def on_ocl(worker: str, driver: str, memory: str, env: dict[str, str]) -> str:
    own = {"OCL_INDUCTOR_DEVICE": driver, "OCL_INDUCTOR_MEMORY": memory}
    return in_two_processes(worker, env={**env, **own})


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("driver", "memory"), cases(quick="discrete"))
def test_collectives(driver: str, memory: str, clean_env: dict[str, str]) -> None:
    found = on_ocl("ocl_collectives_worker.py", driver, memory, clean_env)
    assert len(re.findall("all collectives agree", found)) == 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("driver", "memory"), cases(quick="auto"))
def test_training(driver: str, memory: str, clean_env: dict[str, str]) -> None:
    """Replicated, sharded, and in parts of tensors and sequences."""
    found = on_ocl("ocl_parallel_worker.py", driver, memory, clean_env)
    assert len(re.findall("all losses agree", found)) == 2
    counted = re.findall(r"graphs (\d+), fallbacks (\d+)", found)
    assert counted
    for graphs, fallbacks in counted:
        assert int(graphs) >= 2
        assert int(fallbacks) == 0
