"""How far results are from a float64 evaluation of the same model."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from benchmarks.zoo.entry import Inputs, tensor_outputs

Named = dict[str, torch.Tensor]


def named(output: Any) -> Named:
    """Output tensors by their path, detached copies so that later calls cannot change them."""
    return {path: tensor.detach().clone() for path, tensor in tensor_outputs(output)}


def float64_reference(model: nn.Module, inputs: Inputs) -> Named:
    """The model's outputs in float64, weights and floating-point inputs widened."""
    wide = inputs.double()
    with torch.no_grad():
        return named(copy.deepcopy(model).double()(*wide.args, **wide.kwargs))


def largest_error(outputs: Named, reference: Named) -> float:
    """Largest absolute difference over all outputs.

    NaN or infinity on one side only counts as infinity, on both sides alike as 0.

    Raises:
        ValueError: the two have different outputs or shapes.
    """
    if outputs.keys() != reference.keys():
        raise ValueError(f"outputs {sorted(outputs)} against {sorted(reference)}")
    worst = 0.0
    for path, expected in reference.items():
        actual, expected = outputs[path].double(), expected.double()
        if actual.shape != expected.shape:
            raise ValueError(f"{path}: shape {tuple(actual.shape)} against {tuple(expected.shape)}")
        same = (actual == expected) | (actual.isnan() & expected.isnan())
        difference = torch.where(same, 0.0, (actual - expected).abs()).nan_to_num(torch.inf)
        if difference.numel():
            worst = max(worst, difference.max().item())
    return worst


def scale(reference: Named) -> float:
    """Largest finite magnitude of the reference, the yardstick of absolute errors."""
    values = [t[t.isfinite()].abs().double() for t in reference.values() if t.numel()]
    return max((v.max().item() for v in values if v.numel()), default=0.0)
