"""Values of ``ocl`` tensors are computed when an address or a storage is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ocl_inductor.capture.torch_versions import untraced

#: The storage of a tensor, whether or not it has a value.
storage_of: Callable[[torch.Tensor], Any] = torch._C.TensorBase.untyped_storage
_data_ptr: Callable[[torch.Tensor], int] = torch._C.TensorBase.data_ptr


def open_gates(ready: Callable[[Any], None]) -> None:
    """Have ``ready`` called with a storage before PyTorch returns it or its address."""

    def untyped_storage(self: torch.Tensor) -> Any:
        storage = storage_of(self)
        ready(storage)
        return storage

    def data_ptr(self: torch.Tensor) -> int:
        try:
            ready(storage_of(self))
        except NotImplementedError:  # a tensor without a storage: PyTorch's own error
            pass
        return _data_ptr(self)

    for own in (untyped_storage, data_ptr):
        own.__doc__ = getattr(torch._C.TensorBase, own.__name__).__doc__
        setattr(torch.Tensor, own.__name__, untraced(own))


def close_gates() -> None:
    """Undo ``open_gates``."""
    for name in ("untyped_storage", "data_ptr"):
        if name in torch.Tensor.__dict__:
            delattr(torch.Tensor, name)
