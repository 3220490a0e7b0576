"""Callbacks when Dynamo starts and ends a compilation, while a profile is taken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from torch._dynamo.callback import callback_handler

from ocl_inductor.patches.switch import enabled


@contextlib.contextmanager
def noting(start: Callable[[object], None], end: Callable[[object], None]) -> Iterator[None]:
    """Call these two."""
    if not enabled("compile_times"):
        yield
        return
    callback_handler.register_start_callback(start)
    callback_handler.register_end_callback(end)
    try:
        yield
    finally:
        # torch.compiler.reset() inside of the block removes all callbacks.
        with contextlib.suppress(ValueError):
            callback_handler.remove_start_callback(start)
            callback_handler.remove_end_callback(end)
