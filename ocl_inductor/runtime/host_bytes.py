"""Host memory as transfers take it."""

from __future__ import annotations

import ctypes
from typing import Any

import torch


def host_bytes(tensor: torch.Tensor, nbytes: int) -> Any:
    """The tensor's memory as a ctypes array (no copy; works for every dtype)."""
    return bytes_at(tensor.data_ptr(), nbytes)


def bytes_at(pointer: int, nbytes: int) -> Any:
    """Memory at an address; the result does not keep it alive."""
    return (ctypes.c_char * nbytes).from_address(pointer)
