"""Host memory as transfers take it."""

from __future__ import annotations

import ctypes

import torch


def host_bytes(tensor: torch.Tensor, nbytes: int) -> ctypes.Array[ctypes.c_char]:
    """The tensor's memory as a ctypes array (no copy; works for every dtype)."""
    return bytes_at(tensor.data_ptr(), nbytes)


def bytes_at(pointer: int, nbytes: int) -> ctypes.Array[ctypes.c_char]:
    """Memory at an address; the result does not keep it alive."""
    return (ctypes.c_char * nbytes).from_address(pointer)
