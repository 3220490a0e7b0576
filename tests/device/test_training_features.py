"""What training loops do around a compiled model: gradients and state as eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import assert_same, random, two_drivers
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

#: These are the same on every driver; the others run them with the slow tests.
each_driver = pytest.mark.parametrize(
    "driver", [pytest.param(d, marks=[pytest.mark.slow] * n) for n, d in enumerate(two_drivers())]
)


class Model(nn.Module):
    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, 3)
        self.reentrant = reentrant

    def middle(self, x: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.first(x)))

    def forward(self, x: Tensor) -> Tensor:
        if self.reentrant is None:
            return self.last(self.middle(x))
        return self.last(checkpoint(self.middle, x, use_reentrant=self.reentrant))


def grads(model: nn.Module) -> list[Tensor | None]:
    return [p.grad for p in model.parameters()]


def both(model: nn.Module, driver: str, use: Callable[[nn.Module, Any], Any]) -> None:
    """``use`` gives the same with the compiled model and with a copy of it in eager mode."""
    plain = copy.deepcopy(model)
    call = torch.compile(model, backend="opencl", options={"device": driver})
    assert_same(use(model, call), use(plain, plain), rtol=1e-4, atol=1e-5)


@each_driver
def test_accumulation_frozen_parameters_and_retained_graphs(driver: str) -> None:
    inputs = [random(5, 6) for _ in range(3)]

    def use(model: nn.Module, call: Any) -> Any:
        model.first.weight.requires_grad_(False)
        for x in inputs:
            call(x).square().mean().backward()
        found = [g if g is None else g.clone() for g in grads(model)]
        loss = call(inputs[0]).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        assert model.first.weight.grad is None
        return found, grads(model)[1:]

    both(Model(), driver, use)


@pytest.mark.slow
@each_driver
def test_hooks(driver: str) -> None:
    """On a parameter, on its accumulated gradient, and on the result."""
    x = random(5, 6)

    def use(model: nn.Module, call: Any) -> Any:
        seen: list[Tensor] = []
        model.first.weight.register_hook(lambda g: g * 2)
        model.last.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        out = call(x)
        out.register_hook(lambda g: g + 1)
        out.sum().backward()
        return seen, grads(model)

    both(Model(), driver, use)


@each_driver
@pytest.mark.parametrize("reentrant", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_checkpoints(reentrant: bool, driver: str) -> None:
    x = random(5, 6)

    def use(model: nn.Module, call: Any) -> Any:
        call(x.clone().requires_grad_()).square().sum().backward()
        return grads(model)

    both(Model(reentrant), driver, use)


@pytest.mark.slow
@each_driver
def test_a_number_read_from_a_result(driver: str) -> None:
    """A graph break: which branch and which factor comes next depends on data."""

    class Scaled(Model):
        def forward(self, x: Tensor) -> Tensor:
            y = self.middle(x)
            times = int(y.abs().sum().item()) % 3 + 1
            return self.last(y * times)

    inputs = [random(5, 6) for _ in range(3)]

    def use(model: nn.Module, call: Any) -> Any:
        for x in inputs:
            call(x).square().sum().backward()
        return grads(model)

    both(Scaled(), driver, use)


@each_driver
def test_evaluation_between_steps(driver: str) -> None:
    """The optimiser writes in place what both forms of the model read."""
    x = random(5, 6)

    def use(model: nn.Module, call: Any) -> Any:
        optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        update = (
            optimiser.step
            if call is model
            else torch.compile(optimiser.step, backend="opencl", options={"device": driver})
        )
        found = []
        for _ in range(3):
            optimiser.zero_grad()
            call(x).square().sum().backward()
            update()
            with torch.no_grad():
                found.append(call(x))
        return found, [p.detach() for p in model.parameters()]

    both(Model(), driver, use)
