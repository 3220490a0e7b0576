"""What one sample of a row does, whatever it is a sample of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map


def _as_it_is(f: Any) -> Any:
    return f


_WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}


@dataclass(frozen=True, slots=True)
class Way:
    """How a sample is run: by default eagerly on the CPU.

    ``wrap`` compiles a function or module, or leaves it as it is. ``device``: where the tensors
    are. ``wide``: in float64.
    """

    wrap: Callable[[Any], Any] = _as_it_is
    device: str = "cpu"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """``results(way, seed)``: everything that can be seen of one run, on fresh copies and then on
    the CPU.

    ``random``: may draw random numbers; compared only if they do not matter. ``values``: whether
    the numbers count at all.
    """

    results: Callable[[Way, int], Any]
    random: bool = False
    values: bool = True


def tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


def copied(tree: Any, device: str = "cpu") -> Any:
    """Leaves of their own on ``device`` with the strides, offsets and lazy bits of the originals;
    the CPU among the arguments becomes ``device``, too."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            cpu = isinstance(x, (str, torch.device)) and str(x) == "cpu"
            return torch.device(device) if cpu else x
        if x.is_conj():
            return one(x.detach().conj()).conj().requires_grad_(x.requires_grad)
        if x.is_neg():
            plain = one(torch._neg_view(x.detach()))
            return torch._neg_view(plain).requires_grad_(x.requires_grad)
        if x.layout is not torch.strided or x.is_quantized:
            return x.detach().clone().to(device).requires_grad_(x.requires_grad)
        there = torch.empty(0, dtype=x.dtype, device=x.device)
        storage = there.set_(x.untyped_storage().clone()).to(device)
        y = storage.as_strided(x.size(), x.stride(), x.storage_offset())
        return y.requires_grad_(x.requires_grad)

    return tree_map(one, tree)


def at_home(tree: Any) -> Any:
    """The same on the CPU."""
    return tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, tree)


def widened(tree: Any) -> Any:
    """The same in float64: tensors of a float type, and dtypes among the arguments."""

    def widen(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype in _WIDE and x.layout is torch.strided:
            return x.detach().to(_WIDE[x.dtype]).requires_grad_(x.requires_grad)
        return _WIDE.get(x, x) if isinstance(x, torch.dtype) else x

    return tree_map(widen, tree)


def gradients(results: Any, leaves: Sequence[torch.Tensor], seed: int) -> Any:
    """Gradients of a random weighted sum of all results."""
    outs = [t for t in tensors(results) if t.requires_grad]
    generator = torch.Generator().manual_seed(seed)
    weights = [
        torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype).to(t.device)
        for t in outs
    ]
    return torch.autograd.grad(outs, leaves, weights, allow_unused=True)


def detached(tree: Any) -> Any:
    return tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, tree)
