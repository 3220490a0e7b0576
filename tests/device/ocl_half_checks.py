"""What ``test_ocl.py`` runs too: training in half types on the device ``ocl``."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import ocl_inductor.eager  # noqa: F401  (makes the device)

Tensor = torch.Tensor
BITS = {torch.bfloat16: 8, torch.float16: 11}

#: For half types PyTorch saves statistics in float32 on all devices but the CPU.
NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layer": (lambda: nn.LayerNorm(32), (4, 8, 32)),
    "group": (lambda: nn.GroupNorm(4, 8), (4, 8, 6, 6)),
    "batch": (lambda: nn.BatchNorm2d(8), (4, 8, 6, 6)),
    "batch, evaluated": (lambda: nn.BatchNorm2d(8).eval(), (4, 8, 6, 6)),
    "instance": (lambda: nn.InstanceNorm2d(8, affine=True), (4, 8, 6, 6)),
    "rms": (lambda: nn.RMSNorm(32), (4, 8, 32)),
}


@pytest.mark.parametrize("dtype", BITS, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str, dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, size = NORMS[name]
    model, x, target = make().to(dtype), torch.randn(size).to(dtype), torch.randn(size)

    def gradients(model: nn.Module, run: nn.Module, x: Tensor, target: Tensor) -> list[Tensor]:
        x = x.requires_grad_()
        loss = (run(x).to(target.dtype) - target).square().mean()
        found = torch.autograd.grad(loss, [x, *model.parameters()])
        return [g.cpu().double() for g in found]

    there = copy.deepcopy(model).to("ocl")
    run = torch.compile(there, backend="opencl", options={"fallback": "error"})
    ours = gradients(there, run, x.to("ocl"), target.to("ocl"))
    wide = copy.deepcopy(model).double()
    exact = gradients(wide, wide, x.double(), target.double())
    theirs = gradients(model, model, x.clone(), target)
    for own, eager, true in zip(ours, theirs, exact, strict=True):
        most = 1.5 * (eager - true).norm() + 2.0 ** -BITS[dtype] * true.norm()
        assert (own - true).norm() <= most
