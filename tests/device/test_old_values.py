"""Gradients that need what an input was before the forward graph wrote to it.

Inductor and ``aot_eager`` take the new value there, as of PyTorch 2.13.
"""

from __future__ import annotations

import copy

import pytest
import torch
from agreement import PROFILES, two_drivers
from torch import nn
from torch.nn import functional as F


class RootOfState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.rand(7) + 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * (self.state + 1).sqrt()
        self.state.mul_(5).add_(x.detach().mean(0))
        return y


class ViewOfState(RootOfState):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.state.view(1, 7).exp()
        self.state.mul_(0.5)
        return y


class ScaledWeight(nn.Module):
    """As networks trained for quantisation fold batch norm: by the variance before the step."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
        y = F.conv2d(x, self.conv.weight * scale.view(-1, 1, 1, 1)) / scale.view(1, -1, 1, 1)
        return self.norm(y)


CASES = {
    "root": (RootOfState, (5, 7)),
    "view": (ViewOfState, (5, 7)),
    "scaled weight": (ScaledWeight, (2, 3, 9, 9)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_old_values(name: str, driver: str, profile: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    kind, size = CASES[name]
    model = kind()
    ours = copy.deepcopy(model)
    options = {"device": driver, "profile": profile, "fallback": "error"}
    step = torch.compile(ours, backend="opencl", options=options, dynamic=dynamic)
    for _ in range(2):
        x = torch.randn(size)
        gradients = []
        for module, call in ((model, model), (ours, step)):
            module.zero_grad()
            own = x.clone().requires_grad_()
            call(own).pow(3).sum().backward()  # that of squares is 0 after batch norm
            gradients.append([own.grad, *(p.grad for p in module.parameters())])
        for expected, actual in zip(*gradients, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    for expected, actual in zip(model.buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(actual, expected)
