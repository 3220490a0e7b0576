"""Questions about the tensors of a traced graph: fake ones, and what they became."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch

from ocl_inductor.ir.dtypes import SUPPORTED_DTYPES
from ocl_inductor.ir.index import same
from ocl_inductor.lowering.core.values import ComplexValue, HostValue, Value


def storage_of(fake: torch.Tensor) -> torch.UntypedStorage:
    """Identifies the storage that a traced tensor shares with its views."""
    return fake.untyped_storage()._cdata


def overlaps(x: torch.Tensor) -> bool:
    """Whether elements may share memory, as those of an expanded tensor do."""
    dims = list(zip(x.shape, x.stride(), strict=True))
    if any(isinstance(s, int) and s == 0 and not (isinstance(n, int) and n < 2) for n, s in dims):
        return True
    if not all(isinstance(x, int) for dim in dims for x in dim):
        return False
    reach = 0
    for n, s in sorted(zip(x.shape, x.stride(), strict=True), key=lambda d: d[1]):
        if n > 1 and s <= reach:
            return True
        reach += (n - 1) * s
    return False


def same_strides(size: Sequence[object], a: Sequence[object], b: Sequence[object]) -> bool:
    """Whether two strides give the same elements; those of an extent of 1 do not matter."""
    return all(same(n, 1) or same(x, y) for n, x, y in zip(size, a, b, strict=True))


def is_device_tensor(x: object) -> bool:
    """Whether kernels can work on it."""
    return (
        isinstance(x, torch.Tensor)
        and x.layout is torch.strided
        and x.dtype in SUPPORTED_DTYPES
        and x.device.type == "cpu"
        and not x.is_quantized
        and not x.is_neg()
    )


def is_pair(x: object) -> TypeGuard[torch.Tensor]:
    """Whether kernels can work on a complex tensor, as pairs of real numbers."""
    return (
        isinstance(x, torch.Tensor)
        and x.dtype in (torch.complex64, torch.complex128)
        and x.layout is torch.strided
        and x.device.type == "cpu"
        and not x.is_neg()
    )


def tensor_leaves(tree: object) -> list[torch.Tensor]:
    """Values of tensors inside tuples, lists and dictionaries, in order; both parts of complex
    ones."""
    if isinstance(tree, (Value, HostValue)):
        return [tree]
    if isinstance(tree, ComplexValue):
        return [tree.re, tree.im]
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in tensor_leaves(item)]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in tensor_leaves(item)]
    return []


def fake_leaves(tree: object) -> list[torch.Tensor]:
    """Tensors inside tuples and lists, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in fake_leaves(item)]
    return []
