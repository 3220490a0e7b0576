"""A plugin of pytest: all of a file's tests under ``torch.ocl.lazy()`` (``-p ocl_lazily``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import ocl_inductor.eager  # noqa: F401


@pytest.fixture(autouse=True)
def _lazily() -> Iterator[None]:
    with torch.ocl.lazy():
        yield
