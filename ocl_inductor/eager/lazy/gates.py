"""Values of ``ocl`` tensors are computed when an address or a storage is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch

from ocl_inductor.support.torch_versions import untraced

#: The storage of a tensor, whether or not it has a value.
storage_of: Callable[[torch.Tensor], torch.UntypedStorage] = torch._C.TensorBase.untyped_storage
_data_ptr: Callable[[torch.Tensor], int] = torch._C.TensorBase.data_ptr


def open_gates(ready: Callable[[torch.UntypedStorage], None]) -> None:
    """Have ``ready`` called with a storage before PyTorch returns it or its address."""

    def untyped_storage(self: torch.Tensor) -> torch.UntypedStorage:
        storage = storage_of(self)
        ready(storage)
        return storage

    def data_ptr(self: torch.Tensor) -> int:
        with contextlib.suppress(NotImplementedError):  # without a storage: PyTorch's own error
            ready(storage_of(self))
        return _data_ptr(self)

    torch.Tensor.untyped_storage = untraced(untyped_storage)  # type: ignore[method-assign]
    torch.Tensor.data_ptr = untraced(data_ptr)  # type: ignore[method-assign]


def close_gates() -> None:
    """Undo ``open_gates``."""
    del torch.Tensor.untyped_storage, torch.Tensor.data_ptr
