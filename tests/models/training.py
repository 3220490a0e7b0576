"""What tests of training share: models without randomness, a loss, the error of gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.errors import Named
from benchmarks.zoo import Entry, Inputs, tensor_outputs

#: A gradient whose scale is this much below the largest one is noise around zero (the bias of a
#: convolution before a batch norm, say): errors count relative to this share of the largest.
SMALLEST_SCALE = 1e-3


def without_randomness(model: nn.Module) -> nn.Module:
    """Turn every dropout and stochastic depth off; everything else trains."""
    for module in model.modules():
        random = isinstance(module, nn.modules.dropout._DropoutNd)
        if random or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)
    return model


def trainable(entry: Entry, small: bool = True) -> nn.Module:
    """The small variant of a zoo model, ready to train."""
    return without_randomness(entry.build(small=small).requires_grad_(True).train())


def loss_of(output: Any) -> Tensor:
    """The mean square of everything differentiable that the model returns."""
    squares = [(t * t).mean() for _, t in tensor_outputs(output) if t.requires_grad]
    return torch.stack(squares).sum()


def step(model: nn.Module, call: Callable[..., Any], inputs: Inputs) -> Named:
    """One forward and backward through ``call``, a compiled form of ``model`` or itself.

    Gradients by name, with the loss and the buffers that the forward pass updates. Gradients of
    the model and its inputs start from nothing.
    """
    model.zero_grad(set_to_none=True)

    def leaf(x: Any) -> Any:
        differentiable = isinstance(x, Tensor) and x.is_floating_point()
        return x.detach().clone().requires_grad_() if differentiable else x

    args = tuple(leaf(x) for x in inputs.args)
    kwargs = {k: leaf(v) for k, v in inputs.kwargs.items()}
    loss = loss_of(call(*args, **kwargs))
    loss.backward()
    found = {"loss": loss.detach()}
    found |= {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    found |= {f"buffer {n}": b for n, b in model.named_buffers() if b.is_floating_point()}
    for name, x in [*enumerate(args), *kwargs.items()]:
        if isinstance(x, Tensor) and x.grad is not None:
            found[f"input {name}"] = x.grad
    return {n: t.detach().clone() for n, t in found.items()}


def float64_step(model: nn.Module, inputs: Inputs) -> Named:
    wide = copy.deepcopy(model).double()
    return step(wide, wide, inputs.double())


def relative_errors(actual: Named, reference: Named) -> dict[str, float]:
    """The largest difference in each tensor, relative to its scale; infinity for NaN."""
    assert actual.keys() == reference.keys()
    scales = {n: t.abs().max().item() if t.numel() else 0.0 for n, t in reference.items()}
    smallest = SMALLEST_SCALE * max(scales.values())
    errors = {}
    for name, expected in reference.items():
        assert actual[name].shape == expected.shape, name
        if not expected.numel():
            continue
        difference = (actual[name].double() - expected.double()).abs().max().item()
        unit = max(scales[name], smallest)
        errors[name] = difference / unit if difference == difference else float("inf")
    return errors
