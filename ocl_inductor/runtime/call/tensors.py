"""Tensors as kernels expect them: of a known type, with the planned strides."""

from __future__ import annotations

import torch

#: Dtypes that a kernel can read; constants of other dtypes are for host calls.
KERNEL_DTYPES = frozenset(
    {
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2fnuz,
        torch.bool,
    }
)


def as_planned(x: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """``x`` with the strides that kernels were generated for; a copy if its own differ."""
    if x._is_zerotensor():
        x = _zeros(tuple(x.shape), stride, x.dtype)
    # A mode that watches the first call refuses classes that it does not know.
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
        x = x.detach()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    if x.stride() == stride:
        return x
    size = tuple(x.shape)
    if all(n == 1 or a == b for n, a, b in zip(size, x.stride(), stride, strict=True)):
        return x
    return torch.empty_strided(size, stride, dtype=x.dtype, device=x.device).copy_(x)


def _zeros(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor that autograd only marks as zero (``torch._efficientzerotensor``), in memory."""
    steps = sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    elements = 0 if 0 in size else 1 + steps
    return torch.zeros(elements, dtype=dtype, device="cpu").as_strided(size, stride)


def reach(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if tensor.numel() == 0:
        return 0
    steps = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + steps) * tensor.itemsize
