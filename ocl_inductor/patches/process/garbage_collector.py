"""What exists when Dynamo begins to compile is left out of garbage collection until it ends.

Dynamo makes some 100 000 objects for a model. The interpreter then looks for cycles among all that
there is, once or twice: with PyTorch that is a million objects, which were no garbage a second ago,
and 0.2 s. New objects are collected as always.
"""

from __future__ import annotations

import gc
from typing import Any

from torch._dynamo import callback

from ocl_inductor.patches.switch import enabled


class _Frozen:
    """Whether the older objects are set aside, and by us."""

    def __init__(self) -> None:
        self.ours = False

    def start(self, _: Any) -> None:
        if gc.isenabled() and gc.get_freeze_count() == 0:  # else the user does so
            gc.freeze()
            self.ours = True

    def end(self, _: Any) -> None:
        if self.ours:
            gc.unfreeze()
            self.ours = False


_frozen = _Frozen()


def leave_old_objects_alone() -> None:
    """See above; done again where ``torch.compiler.reset()`` took it away."""
    handler = callback.callback_handler
    if enabled("garbage_collector") and _frozen.start not in handler.start_callbacks:
        callback.on_compile_start(_frozen.start)
        callback.on_compile_end(_frozen.end)
