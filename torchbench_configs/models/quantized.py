"""Networks of torchvision prepared for quantisation-aware training.

Paper: Jacob et al., arXiv 1712.05877.

Simplified: in inference the network still simulates quantisation in floating point; converting it
to integer kernels of one CPU library would leave nothing to compile. Dynamo leaves the graph at
each module of torch.ao unless it is told to trace them, as it is here, for every compiler.
"""

from __future__ import annotations

import warnings

import torch
from torch import nn

from ocl_inductor.sweep.vision_import import import_torchvision


class Prepared(nn.Module):
    """A network whose modules of torch.ao Dynamo traces."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    @torch._dynamo.dont_skip_tracing
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.network(x)
        return result


def build(model: str) -> nn.Module:
    """torchvision's ``model`` with fake quantisation after weights and activations (fbgemm)."""
    import_torchvision()
    from torch.ao.quantization import get_default_qat_qconfig_mapping
    from torch.ao.quantization.quantize_fx import prepare_qat_fx
    from torchvision import models

    module = getattr(models, model)(weights=None).train()
    example = (torch.randn(1, 3, 224, 224),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on the future of torch.ao
        prepared = prepare_qat_fx(module, get_default_qat_qconfig_mapping("fbgemm"), example)
    prepared.train()
    with torch.no_grad():
        prepared(torch.randn(2, 3, 64, 64))  # observers see a range before the first use
    return Prepared(prepared)
