"""A geometry in a tensor's memory as a view of the tensor, in operators that the compiler follows.

``as_strided`` says it all, but to a compiler it is arithmetic on addresses: a transposed operand of
a product would not be recognised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor

from ocl_inductor.eager.lazy.steps import Fresh, Piece
from ocl_inductor.resident.tensors import reach_of

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


def lies_within(
    geometry: tuple[Sequence[int], Sequence[int], int], itemsize: int, own: Piece | Fresh
) -> bool:
    """Whether a view from the storage's first element, of elements of so many bytes, is one of the
    memory that the storage will have."""
    size, stride, start = geometry
    return (
        start >= 0
        and len(size) == len(stride)
        and all(n >= 0 for n in size)
        and all(s >= 0 for s in stride)
        and (start + reach_of(size, stride)) * itemsize
        <= reach_of(own.size, own.stride) * own.dtype.itemsize
    )


def view_of(base: Tensor, geometry: Geometry) -> Tensor:
    """``offset``: elements from the first of ``base``."""
    size, stride, offset = geometry
    with contextlib.suppress(RuntimeError):
        # Of no elements no operator has to be recognised, and a start is out of every range.
        found = None if 0 in size else _natural(base, size, stride, offset)
        if found is not None and _same(found, base, geometry):
            return found
    return torch.as_strided(base, size, stride, base.storage_offset() + offset)


def _same(found: Tensor, base: Tensor, geometry: Geometry) -> bool:
    size, stride, offset = geometry
    return (
        tuple(found.size()) == tuple(size)
        and tuple(found.stride()) == tuple(stride)
        and found.storage_offset() - base.storage_offset() == offset
    )


def _natural(
    base: Tensor, size: Sequence[int], stride: Sequence[int], offset: int
) -> Tensor | None:
    repeated = [s == 0 and n > 1 for n, s in zip(size, stride, strict=True)]
    if any(repeated):
        once = [1 if r else n for n, r in zip(size, repeated, strict=True)]
        plain = [1 if r else s for s, r in zip(stride, repeated, strict=True)]
        inner = _natural(base, once, plain, offset)
        return None if inner is None else inner.expand(*size)
    found = _part(base, size, stride, offset)
    return _reordered(base, size, stride) if found is None and offset == 0 else found


def _reordered(base: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor | None:
    """All elements, in another order or in other dimensions."""
    order = sorted(range(len(size)), key=lambda d: (-stride[d], size[d] == 1, d))
    reach = 1
    for d in reversed(order):
        if size[d] != 1 and stride[d] != reach:
            return None
        reach *= size[d]
    if reach != base.numel():
        return None
    flat = base
    if not base.is_contiguous():
        dims = sorted(range(base.dim()), key=lambda d: -base.stride(d))
        flat = base.permute(dims)
    shaped = flat.view([size[d] for d in order])
    return shaped.permute([order.index(d) for d in range(len(size))])


def _part(base: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor | None:
    """A slice in each dimension, of which some are left out."""
    if base.dim() < len(size):
        return None
    found, rest, dims = base, offset, list(range(base.dim()))
    wanted = list(zip(size, stride, strict=True))
    position = 0
    for d in dims:
        n, s = base.size(d), base.stride(d)
        start = 0
        if s:
            start = min(rest // s, n - 1)
            rest -= start * s
        left = base.dim() - d - 1
        keeps = len(wanted) - position
        if position < len(wanted):
            length, step = wanted[position]
            fits = (
                length == 1
                if s == 0
                else step % s == 0 and step and start + (length - 1) * (step // s) < n
            )
            if fits and (step == s or length > 1 or keeps > left):
                jump = 1 if s == 0 or length == 1 else step // s
                found = found.narrow(position, start, (length - 1) * jump + 1)
                if jump > 1:
                    found = found[(slice(None),) * position + (slice(None, None, jump),)]
                position += 1
                continue
        if keeps > left:
            return None
        found = found.select(position, start)
    return found if position == len(wanted) and rest == 0 else None
