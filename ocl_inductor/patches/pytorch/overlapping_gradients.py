"""Gradients that arrive for results whose own elements overlap in memory.

AOTAutograd expects the gradient of a result in the strides of the result, and copies one that comes
in others. Elements that share an address would overwrite each other there. PyTorch's own test sees
strides of 0 only, not windows over an intermediate result such as ``(x * 2).unfold(0, 4, 3)``:
their gradients are wrong in every backend that uses AOTAutograd (PyTorch 2.13).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch._aot_autograd import schemas


@contextlib.contextmanager
def dense_gradients(overlaps: Callable[[torch.Tensor], bool]) -> Iterator[None]:
    """Trace so that gradients of overlapping results are dense, as those of expanded ones are.

    ``overlaps`` is asked of strided tensors of static sizes.
    """
    Meta: Any = getattr(schemas, "MemoryFormatMeta", None)
    original = getattr(Meta, "from_tensor", None)
    if original is None:  # another PyTorch: as it is there
        yield
        return

    # Other arguments there may be differ between versions of PyTorch.
    def from_tensor(t: torch.Tensor, *args: object, **kwargs: object) -> Any:
        static = t.layout is torch.strided and not t._has_symbolic_sizes_strides
        if static and overlaps(t):
            return Meta(memory_format=torch._prims_common.suggest_memory_format(t))
        return original(t, *args, **kwargs)

    Meta.from_tensor = staticmethod(from_tensor)
    try:
        yield
    finally:
        Meta.from_tensor = staticmethod(original)
