"""Differences between the supported versions of PyTorch: known only here.

No version number is compared: each missing feature is detected by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental import symbolic_shapes
from torch.utils._python_dispatch import _disable_current_modes

#: Names of requested operators that this PyTorch lacks.
ABSENT: set[str] = set()


def aten_overload(name: str) -> Any:
    """``add.Tensor`` as an aten overload, no dot means ``default``; None where there is none."""
    packet, _, overload = name.partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:
        ABSENT.add(name)
        return None


def guarding_hint(env: Any, expr: Any) -> int:
    """The value of a size in the example inputs of a ShapeEnv; adds no guard.

    Raises PyTorch's error where the size depends on data.
    """
    ask = getattr(env, "guarding_hint_or_throw", None) or env.size_hint  # the latter before 2.12
    return int(ask(expr))


def node_hint(node: Any) -> Any:
    """The same for a SymNode: a number or a bool."""
    ask = getattr(symbolic_shapes, "guarding_hint_or_throw", None)
    return node.require_hint() if ask is None else ask(node)  # the former before 2.12


@functools.cache
def truncates_int64_ranges() -> bool:
    """Whether ``torch.arange`` of int64 truncates floats first, as until 2.13: for 1, 6 and 1.5 it
    gives five elements; since 2.14, and for shorter integers always, four.
    """
    with _disable_current_modes():
        return torch.arange(1, 6, 1.5, dtype=torch.int64).numel() == 5


@functools.cache
def float8_saturates() -> bool:
    """Whether 1e4 as float8_e4m3fn is its largest number, 448, as since 2.13; NaN before."""
    with _disable_current_modes():
        return not torch.tensor(1e4).to(torch.float8_e4m3fn).float().isnan().item()


@functools.cache
def one_hot_is_checked() -> bool:
    """Whether a graph that ``one_hot`` is traced to asserts that its classes are in range.

    Since 2.12 PyTorch decomposes it in Python, with asserts; before that without any.
    """
    kernels = torch.ops.aten.one_hot.default.py_kernels
    return torch._C.DispatchKey.CompositeImplicitAutograd in kernels


def storages_take_memory() -> bool:
    """Whether a storage can be given memory after it was made, as lazy mode does: since 2.13."""
    return hasattr(torch.UntypedStorage, "_swap_data_ptr_")


def untraced(function: Callable[..., object]) -> Callable[..., Any]:
    """``function``, never traced by Dynamo, with all that it calls; also for others with its code.

    ``torch.compiler.disable`` does so by switching Dynamo off and on again at each call (1 µs);
    this marks the code object, where PyTorch supports that.
    """
    frames = torch._C._dynamo.eval_frame
    try:
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    except AttributeError:
        return torch.compiler.disable(function)  # type: ignore[no-any-return]
    return function
