"""Activations that a forward graph saves lie as its kernels made them; gradients are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import assert_same, random, two_drivers
from torch import Tensor, nn

from ocl_inductor.plan.plan import Plan


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 9, 5),
    )


def gradients(model: nn.Module, call: Any, x: Tensor, times: int = 1) -> list[Tensor]:
    model.zero_grad()
    loss = call(x).square().sum()
    for n in range(times):
        loss.backward(retain_graph=n + 1 < times)
    return [loss.detach(), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize(
    "driver", [pytest.param(d, marks=[pytest.mark.slow] * n) for n, d in enumerate(two_drivers())]
)
def test_channels_stay_adjacent(driver: str, plans: list[Plan]) -> None:
    """No kernel of either graph only brings an image into another order."""
    model = network()
    call = torch.compile(model, backend="opencl", options={"device": driver, "verify": True})
    x = random(4, 3, 6, 6)
    for times in (1, 2):  # twice with retain_graph
        assert_same(gradients(model, call, x, times), gradients(model, model, x, times), 1e-4, 1e-4)
    forward = plans[0]
    saved = forward.outputs[forward.visible_outputs :]
    images = [o for o in saved if len(o.size) == 4 and o.size[1:] == (16, 6, 6)]
    assert len(images) >= 3
    assert {o.stride for o in images} == {(16 * 36, 1, 16 * 6, 16)}
    backward = {s.name: s.stride for s in plans[1].inputs if s.size[1:] == (16, 6, 6)}
    assert (16 * 36, 36, 6, 1) not in backward.values()


@pytest.mark.slow
@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_hooks_that_change_the_layout(driver: str) -> None:
    """What comes back from a hook has other strides than what was saved."""
    model = network()
    call = torch.compile(model, backend="opencl", options={"device": driver})
    x = random(4, 3, 6, 6)

    def pack(t: Tensor) -> Tensor:
        return t.clone(memory_format=torch.contiguous_format)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        got = gradients(model, call, x)
    assert_same(got, gradients(model, model, x), 1e-4, 1e-4)


def first_in_memory(x: Tensor) -> Tensor:
    """Sixteen elements in the order in which memory has them."""
    return torch.as_strided(x, (16,), (1,), 3).clone()


@torch.library.custom_op("saved_layout::first_in_memory", mutates_args=())
def first_in_memory_operator(x: Tensor) -> Tensor:
    return first_in_memory(x)


@first_in_memory_operator.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(16)


def first_of_a_view(x: Tensor) -> Tensor:
    return first_in_memory(x.view(2, 16, 36))


@pytest.mark.parametrize("driver", two_drivers()[:1])
@pytest.mark.parametrize(
    "look",
    [
        pytest.param(first_in_memory, marks=pytest.mark.slow),
        first_of_a_view,
        first_in_memory_operator,
    ],
)
def test_a_backward_that_sees_strides(driver: str, look: Callable[[Tensor], Tensor]) -> None:
    """What looks at the memory of what was saved finds it in eager's order."""

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sum((1, 2, 3))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return (g.sum() * look(x).square().sum()) * torch.ones_like(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return Looks.apply(self.conv(x).contiguous())

    model = Model()
    call = torch.compile(model, backend="opencl", options={"device": driver})
    x = random(2, 3, 6, 6)
    # Gradients are sums of terms in the thousands: their errors go with the largest, not with 1.
    assert_same(gradients(model, call, x), gradients(model, model, x))


@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_what_is_saved_twice_is_stored_once(driver: str, plans: list[Plan]) -> None:
    """A product's operand that is also saved for its gradient, the same for a softmax."""
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 8), nn.LogSoftmax(1))
    call = torch.compile(model, backend="opencl", options={"device": driver})
    x = random(32, 8)
    assert_same(gradients(model, call, x), gradients(model, model, x), 1e-4, 1e-4)
    wide = [b for b in plans[0].buffers if b.size == (32, 24)]
    assert len(wide) == 1
