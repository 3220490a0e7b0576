"""A plugin for the checks of ``ocl``: leaves out what ``SAMPLED`` leaves out of a test run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from slow_cases import beyond_the_share


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    out = list(beyond_the_share(items))
    config.hook.pytest_deselected(items=out)
    left_out = {id(item) for item in out}
    items[:] = [item for item in items if id(item) not in left_out]
