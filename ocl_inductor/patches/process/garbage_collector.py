"""Excludes objects from garbage collection that exist when Dynamo begins to compile.

Dynamo allocates some 100 000 objects for a model, which triggers one or two full collections: with
PyTorch imported these visit a million long-lived objects and take 0.2 s. Objects that are allocated
while Dynamo compiles are collected as usual; the others again when it has finished.
"""

from __future__ import annotations

import gc

from torch._dynamo import callback

from ocl_inductor.patches.switch import enabled


class _Frozen:
    """Whether objects are frozen (``gc.freeze``), and by us."""

    def __init__(self) -> None:
        self.ours = False

    def start(self, _: object) -> None:
        if gc.isenabled() and gc.get_freeze_count() == 0:  # else the user does so
            gc.freeze()
            self.ours = True

    def end(self, _: object) -> None:
        if self.ours:
            gc.unfreeze()
            self.ours = False


_frozen = _Frozen()


def leave_old_objects_alone() -> None:
    """Register the callbacks with Dynamo, unless they are still there since the last call."""
    handler = callback.callback_handler
    if enabled("garbage_collector") and _frozen.start not in handler.start_callbacks:
        callback.on_compile_start(_frozen.start)
        callback.on_compile_end(_frozen.end)
