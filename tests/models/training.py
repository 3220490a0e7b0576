"""What tests of training share: a step with all its gradients, and their error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from benchmarks.errors import Named
from benchmarks.training import loss_of, trainable
from benchmarks.zoo import Inputs

__all__ = ["float64_step", "loss_of", "relative_errors", "step", "trainable"]

#: A gradient whose scale is this much below the largest one is noise around zero (the bias of a
#: convolution before a batch norm, say): errors count relative to this share of the largest.
SMALLEST_SCALE = 1e-3


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
