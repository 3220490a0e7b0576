"""Tensors without elements on ``ocl:1`` and further: PyTorch's interface makes those of ``ocl:0``.

A tensor's device is fixed when C++ makes it, and of the ways that Python has to make one, DLPack
(``dlpack.h``, version 0.8: ``DLManagedTensor`` in a capsule) names a device with an index.
"""

from __future__ import annotations

import ctypes
import functools

import torch

from ocl_inductor.resident.schemas import ON_CPU

_view, _detach = torch.ops.aten.view.dtype, torch.ops.aten.detach.default
#: ``kDLExtDev``, which PyTorch reads as its slot for out-of-tree devices; and ``kDLFloat``.
_DEVICE, _FLOAT = 12, 2


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Managed(ctypes.Structure):
    """``DLManagedTensor``: the tensor itself, then who owns it and how it is freed (not at all)."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("dimensions", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


def no_elements(dtype: torch.dtype, index: int) -> torch.Tensor:
    """A new tensor of size 0 on ``ocl:index``, whose storage can be set."""
    return _detach.redispatch(ON_CPU, _template(dtype, index))  # type: ignore[no-any-return]


@functools.cache
def _template(dtype: torch.dtype, index: int) -> torch.Tensor:
    with torch.inference_mode(False):  # such a one could not be changed outside of it
        return _view.redispatch(ON_CPU, _imported(index), dtype)  # type: ignore[no-any-return]


@functools.cache
def _imported(index: int) -> torch.Tensor:
    """Of float32. The structure is read once; PyTorch frees none without a deleter."""
    size, stride = (ctypes.c_int64 * 1)(0), (ctypes.c_int64 * 1)(1)
    made = _Managed(
        device=_Device(_DEVICE, index),
        dimensions=1,
        type=_Type(_FLOAT, 32, 1),
        shape=size,
        strides=stride,
    )
    _imported_structures.append(made)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    given = capsule(ctypes.addressof(made), b"dltensor", None)
    return torch._C._from_dlpack(given)  # type: ignore[attr-defined,no-any-return]


#: PyTorch keeps the addresses.
_imported_structures: list[_Managed] = []
