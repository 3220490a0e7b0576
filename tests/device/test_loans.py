"""What a forward graph has on the device is not sent again for its backward graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch import nn
from torch._dynamo.utils import counters

each_driver = pytest.mark.parametrize("driver", two_drivers())


class Bytes:
    """Sent up within a block."""

    up = 0


@contextmanager
def sent() -> Iterator[Bytes]:
    found = Bytes()
    before = counters["opencl"]["bytes_uploaded"]
    yield found
    found.up = counters["opencl"]["bytes_uploaded"] - before


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(33, 300), nn.Tanh(), nn.Linear(300, 9))


def gradients(model: nn.Module, call: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    """Of the parameters, for a loss that needs each weight in the backward graph."""
    model.zero_grad()
    call(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def agrees(found: list[torch.Tensor], model: nn.Module, x: torch.Tensor) -> None:
    wide = copy.deepcopy(model).double()
    expected = gradients(wide, wide, x.double())
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-6)


@each_driver
def test_backward_sends_nothing_but_the_gradient_of_its_result(driver: str) -> None:
    model = perceptron()
    function = compiled(model, driver, memory="discrete")
    for _ in range(3):
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(0.9)
        x = random(65, 33)
        with sent() as forward:
            loss = function(x).square().mean()
        assert forward.up == 4 * (x.numel() + sum(p.numel() for p in model.parameters()))
        model.zero_grad()
        with sent() as backward:
            loss.backward()
        assert backward.up == 4 * 65 * 9
        agrees([p.grad for p in model.parameters() if p.grad is not None], model, x)


@each_driver
def test_two_forward_calls_before_the_backward_ones(driver: str) -> None:
    """The second input lies where the first one did, which then is sent once more."""
    model = perceptron()
    function = compiled(model, driver, memory="discrete")
    x, y = random(65, 33), random(65, 33)
    gradients(model, function, x)
    model.zero_grad()
    first, second = function(x).square().mean(), function(y).square().mean()
    first.backward()
    second.backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    wide = copy.deepcopy(model).double()
    one, two = gradients(wide, wide, x.double()), gradients(wide, wide, y.double())
    for a, b, c in zip(found, one, two, strict=True):
        torch.testing.assert_close(a.double(), b + c, rtol=1e-4, atol=1e-6)


@each_driver
def test_the_same_plan_for_two_models(driver: str) -> None:
    """The weights of the second lie where those of the first did when that one's turn comes."""
    models = [perceptron(), perceptron()]

    @torch.compile(backend="opencl", options={"device": driver, "memory": "discrete"})
    def function(w: torch.Tensor, v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (x @ w.t()).tanh() @ v.t()

    weights = [(m[0].weight, m[2].weight) for m in models]  # type: ignore[index]
    xs = [random(65, 33), random(65, 33)]
    for _ in range(2):
        results = [function(*w, x) for w, x in zip(weights, xs, strict=True)]
        for result, model, (w, v), x in zip(results, models, weights, xs, strict=True):
            model.zero_grad()
            result.square().mean().backward()
            a, b = (p.detach().double().requires_grad_() for p in (w, v))
            ((x.double() @ a.t()).tanh() @ b.t()).square().mean().backward()
            torch.testing.assert_close(w.grad.double(), a.grad, rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(v.grad.double(), b.grad, rtol=1e-4, atol=1e-6)


@each_driver
def test_a_write_that_leaves_no_version(driver: str) -> None:
    """Whatever another graph was lent before: each forward graph lends what it has seen itself."""
    model = perceptron()
    whole = compiled(model, driver, memory="discrete")
    x = random(65, 33)
    for _ in range(2):
        agrees(gradients(model, whole, x), model, x)
    model[0].weight.data.mul_(-0.5)  # type: ignore[index]
    model[2].weight.data.mul_(3)  # type: ignore[index]
    torch.compiler.reset()
    other = compiled(lambda x: model(x) + 1 - 1, driver, memory="discrete")
    agrees(gradients(model, other, x), model, x)
    model[0].weight.data.mul_(-0.5)  # type: ignore[index]
    agrees(gradients(model, whole, x), model, x)
    agrees(gradients(model, other, x), model, x)


@each_driver
def test_a_tensor_that_was_freed(driver: str) -> None:
    """Another one at its address is not what was lent."""
    function = compiled(lambda x, w: (x * w).tanh() @ w, driver, memory="discrete")
    for _ in range(5):
        x, w = random(40, 40), random(40, 40).requires_grad_()
        function(x, w).sum().backward()
        wide = w.detach().double().requires_grad_()
        ((x.double() * wide).tanh() @ wide).sum().backward()
        torch.testing.assert_close(w.grad.double(), wide.grad, rtol=1e-4, atol=1e-4)
        del x, w, wide


@each_driver
def test_exact_weights_are_sent_again(driver: str) -> None:
    model = perceptron()
    function = compiled(model, driver, memory="discrete", exact_weights=True)
    x = random(65, 33)
    gradients(model, function, x)
    loss = function(x).square().mean()
    with sent() as backward:
        loss.backward()
    assert backward.up > 4 * 65 * 9
