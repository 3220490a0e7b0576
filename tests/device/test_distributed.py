"""Two local processes that talk through gloo: collectives in graphs, and parallel training."""

from __future__ import annotations

import re

import pytest
from agreement import two_drivers
from two_processes import in_two_processes


def drivers(quick: int) -> list[object]:
    """The first ``quick`` of two drivers always, the others with the slow tests."""
    names = two_drivers()
    return [pytest.param(n, marks=[pytest.mark.slow] * (k >= quick)) for k, n in enumerate(names)]


@pytest.mark.parametrize("driver", drivers(quick=1))
def test_collectives_in_graphs(driver: str, clean_env: dict[str, str]) -> None:
    """Each has its numbers when it is waited for, and counts as no fallback."""
    found = in_two_processes("collectives_worker.py", driver, env=clean_env)
    assert len(re.findall("all functions agree", found)) == 2


@pytest.mark.parametrize("driver", drivers(quick=1))
def test_shared_training_has_the_losses_of_one_process(
    driver: str, clean_env: dict[str, str]
) -> None:
    """Tensor and sequence parallel, fully sharded, and replicated."""
    found = in_two_processes("parallel_worker.py", driver, env=clean_env)
    counted = re.findall(r"graphs (\d+), fallbacks (\d+)", found)
    assert len(counted) == 2
    for graphs, fallbacks in counted:
        assert int(graphs) >= 2
        assert int(fallbacks) == 0


@pytest.mark.slow
@pytest.mark.parametrize("driver", two_drivers())
def test_two_processes_train_as_one(driver: str, clean_env: dict[str, str]) -> None:
    """Replicated, with small buckets (see ddp_worker.py)."""
    found = re.search(
        r"graphs (\d+), fallbacks (\d+)", in_two_processes("ddp_worker.py", driver, env=clean_env)
    )
    assert found is not None
    # The model is cut where a bucket is full, and each part has a forward and a backward.
    assert int(found[1]) >= 4
    assert int(found[2]) == 0
