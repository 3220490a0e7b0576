"""A plugin of pytest: all of a file's tests under ``torch.ocl.lazy()``, with ``-p ocl_lazily`` and
OCL_INDUCTOR_TEST_LAZY in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

import ocl_inductor.eager  # noqa: F401


@pytest.fixture(autouse=True)
def _lazily() -> Iterator[None]:
    assert "OCL_INDUCTOR_TEST_LAZY" in os.environ  # some tests ask
    with torch.ocl.lazy():
        yield
