"""Variables that the OpenCL loader and drivers read when they are opened.

The caller holds the lock under which drivers are opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of the block."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)


def set_for_good(variable: str, value: str) -> None:
    """Set a variable for all drivers that are opened from now on, unless the user has set it."""
    os.environ.setdefault(variable, value)
