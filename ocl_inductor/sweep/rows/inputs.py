"""Example inputs of a row: tensors made from their specs, always the same for a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ocl_inductor.sweep.rows.resolve import resolve
from ocl_inductor.sweep.rows.schema import Dimension, Mode, ModelConfig, RowInput


def make_inputs(
    config: ModelConfig, mode: Mode, sizes: Mapping[str, int], dtype: torch.dtype, seed: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of one call, on the CPU; ``sizes`` includes ``B``."""
    generator = torch.Generator().manual_seed(seed)
    if config.inputs_from is not None:
        make = resolve(config.inputs_from, config.name)
        args, kwargs = make(sizes["B"], sizes, generator)
        return tuple(cast(args, dtype)), dict(cast(kwargs, dtype))
    positional: list[torch.Tensor] = []
    named: dict[str, torch.Tensor] = {}
    for spec in config.inputs:
        if spec.mode not in (None, mode):
            continue
        value = make_tensor(spec, sizes, dtype, generator)
        if spec.name is None:
            positional.append(value)
        else:
            named[spec.name] = value
    return tuple(positional), named


def make_tensor(
    spec: RowInput, sizes: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """The tensor that ``spec`` describes; float32 becomes ``dtype``."""
    shape = tuple(dimension(size, sizes) for size in spec.shape)
    kind, own = spec.kind, getattr(torch, spec.dtype)
    if kind == "integers":
        high = 2 if spec.high is None else int(spec.high)
        value = torch.randint(int(spec.low), high, shape, generator=generator)
    elif kind == "arange":
        count = math.prod(shape)
        value = (torch.arange(count) + int(spec.low)).view(shape)
    elif kind == "full":
        value = torch.full(shape, spec.value, dtype=torch.float64)
    elif kind == "uniform":
        end = 1.0 if spec.high is None else spec.high
        value = torch.rand(shape, generator=generator) * (end - spec.low) + spec.low
    else:
        value = torch.randn(shape, generator=generator) * spec.std + spec.mean
    return cast(value.to(own), dtype)


def dimension(size: Dimension, sizes: Mapping[str, int]) -> int:
    """The number that a size such as ``16*B`` stands for."""
    parts = [part.strip() for part in str(size).split("*")]
    return math.prod(int(part) if part.isdigit() else sizes[part] for part in parts)


def cast(value: object, dtype: torch.dtype) -> Any:
    """The same nest with its float32 tensors in ``dtype``."""
    return pytree.tree_map(
        lambda leaf: (
            leaf.to(dtype)
            if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32
            else leaf
        ),
        value,
    )


def to_device(value: object, device: torch.device) -> Any:
    """The same nest with its tensors on ``device``."""
    return pytree.tree_map(
        lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value
    )
