"""Constants of PyTorch by their names in the keys of AOTAutograd's cache.

The pickler that makes keys writes ``torch.strided`` and its like as an attribute of whichever
module is found first to have imported torch, so that a key would depend on the order of imports.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ocl_inductor.patches.switch import enabled

_NAMED = (torch.dtype, torch.layout, torch.memory_format)


def _by_name(x: object) -> tuple[Any, ...]:
    """A reduction that is only hashed, and cannot be unpickled."""
    return str, (str(x),)


@functools.cache
def name_constants(pickler: Any, ours: Callable[[], bool]) -> None:
    """``pickler``: PyTorch's class. ``ours``: whether the key is one of our compilations."""
    if not enabled("plan_cache_keys"):
        return
    init = pickler.__init__

    def init_pickler(self: Any, *args: Any, **kwargs: Any) -> None:  # versions differ in them
        init(self, *args, **kwargs)
        if ours():
            self.dispatch_table.update(dict.fromkeys(_NAMED, _by_name))

    pickler.__init__ = init_pickler
