"""Temporarily replaces a registered backend, and adds a handler to PyTorch's trace."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from torch._dynamo.backends import registry
from torch._logging._internal import trace_log


@contextlib.contextmanager
def observing(name: str, backend: object, handler: logging.Handler) -> Iterator[None]:
    """``torch.compile(backend=name)`` uses ``backend`` inside the block."""
    registry.lookup_backend(name)  # an unknown backend is an error here, with torch's own advice
    plain = registry._COMPILER_FNS[name]
    registry._COMPILER_FNS[name] = backend
    trace_log.addHandler(handler)
    try:
        yield
    finally:
        trace_log.removeHandler(handler)
        registry._COMPILER_FNS[name] = plain
