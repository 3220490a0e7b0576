"""Modules that move to ``ocl`` or away from it keep their parameters' identity.

PyTorch replaces the data of a parameter where the old and the new tensor are of a compatible kind,
as between the CPU and CUDA, and otherwise creates a new parameter for each name. ``ocl`` tensors
count as incompatible; weights shared by two modules would be separated, and an optimiser would
continue with the old ones. So such a move swaps the tensors of each parameter.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from ocl_inductor.resident.places import NAME, is_resident


def keep_identity_of_parameters() -> None:
    """Make ``nn.Module.to`` and similar methods swap tensors where ``ocl`` is on either side."""
    apply = nn.Module._apply

    @functools.wraps(apply)
    def swapping(self: nn.Module, fn: Callable[[object], object], recurse: bool = True) -> object:
        future = torch.__future__
        if future.get_swap_module_params_on_conversion() or not _crosses(self, fn):
            return apply(self, fn, recurse)
        future.set_swap_module_params_on_conversion(True)
        try:
            with _lazy_ones_moved(self, fn):
                return apply(self, fn, recurse)
        finally:
            future.set_swap_module_params_on_conversion(False)

    nn.Module._apply = swapping  # type: ignore[method-assign,assignment]


@contextlib.contextmanager
def _lazy_ones_moved(module: nn.Module, fn: Callable[[object], object]) -> Iterator[None]:
    """Move the parameters that have no size yet, and hide them: PyTorch would swap each with a
    parameter of size 0."""
    hidden = [
        (owner, key, parameter)
        for owner in module.modules()
        for key, parameter in owner._parameters.items()
        if isinstance(parameter, UninitializedParameter)
    ]
    for owner, key, _ in hidden:
        owner._parameters[key] = None
    try:
        yield
    finally:
        for owner, key, parameter in hidden:
            owner._parameters[key] = parameter
    for parameter in {id(p): p for *_, p in hidden}.values():
        with torch.no_grad():
            like = fn(torch.empty(0, dtype=parameter.dtype, device=parameter.device))
        assert isinstance(like, torch.Tensor)
        moved = UninitializedParameter(  # type: ignore[call-arg]
            requires_grad=parameter.requires_grad, device=like.device, dtype=like.dtype
        )
        torch.utils.swap_tensors(parameter, moved)


def _crosses(module: nn.Module, fn: Callable[[object], object]) -> bool:
    """Whether the conversion changes between ``ocl`` and another device."""
    parameter = next(module.parameters(), None)
    if parameter is None:
        return False
    probe = torch.empty(0, dtype=parameter.dtype, device=parameter.device)
    with torch.no_grad():
        after = fn(probe)
    return is_resident(parameter) != (isinstance(after, torch.Tensor) and after.device.type == NAME)
