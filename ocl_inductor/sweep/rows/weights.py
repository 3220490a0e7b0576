"""Random weights that a comparison can learn something from."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def enliven(model: nn.Module) -> None:
    """Move parameters away from values that hide mistakes.

    Fresh biases are 0, fresh norms are 1 and layer scales are about 1e-6: a compiler that drops
    any of them would still agree with eager.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.is_floating_point():
                continue
            if "layer_scale" in name:
                parameter.uniform_(0.2, 0.6)
            elif parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.05)


def batch_norms(model: nn.Module) -> list[nn.Module]:
    """All batch norms of a model."""
    return [m for m in model.modules() if isinstance(m, _BatchNorm)]


def calibrate(
    model: nn.Module, forward: Callable[[], object], norms: Iterable[nn.Module] | None = None
) -> None:
    """Give batch norms the statistics of one batch, so activations keep a sane scale.

    ``norms`` are those to change, all of the model's if None.

    ``forward`` runs ``model`` once, on a batch large enough to give the deepest layers a few dozen
    samples a channel. With random weights and the initial statistics (0 and 1), deep residual
    networks reach outputs of 1e4 and more, where absolute tolerances mean nothing.
    """
    found = [m for m in norms or batch_norms(model) if isinstance(m, _BatchNorm)]
    found = [norm for norm in found if norm.track_running_stats]
    if not found:
        return
    momenta = [norm.momentum for norm in found]
    for norm in found:
        norm.training = True  # not train(): norms that are frozen refuse it
        norm.momentum = None  # a plain average, which one batch determines
        norm.reset_running_stats()
    with torch.no_grad():
        forward()
    for norm, momentum in zip(found, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
        if norm.running_var is not None:
            # Few samples reach the deepest layers: a channel that happened to vary little there
            # would amplify every rounding error of the layers before.
            norm.running_var.clamp_(min=0.2 * norm.running_var.mean().item())


def without_dropout(model: nn.Module) -> None:
    """Set every dropout probability to 0, so that training steps can be compared.

    Covers the dropout modules, recurrent layers and attention of torch.nn, torchvision's stochastic
    depth, and the attributes with ``dropout`` or ``drop_prob`` in their names that packages pass to
    functions.
    """
    for module in model.modules():
        stochastic_depth = type(module).__name__ == "StochasticDepth"  # torchvision's
        if stochastic_depth or isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            named = "dropout" in name or "drop_prob" in name
            if named and isinstance(value, float):
                setattr(module, name, 0.0)
