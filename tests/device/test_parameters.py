"""Parameters that change between calls: replaced, written, moved; and models that end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import compiled, random, two_drivers
from stateful_model import Model, new_model
from torch import nn

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _in_place(model: Model) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p))
        model.scale.mul_(-2)
        model.norm.running_var.add_(1)


def _replaced(model: Model) -> None:
    for module, name in [
        (model.conv, "weight"),
        (model.linear, "weight"),
        (model.linear, "bias"),
        (model.norm, "weight"),
    ]:
        old = getattr(module, name)
        setattr(module, name, nn.Parameter(torch.randn_like(old), old.requires_grad))


def _data_replaced(model: Model) -> None:
    for p in model.parameters():
        p.data = torch.randn_like(p.data)


def _data_written(model: Model) -> None:
    for p in model.parameters():
        p.data.normal_()


def _loaded(model: Model) -> None:
    model.load_state_dict(
        {k: v + torch.rand_like(v.float()).to(v.dtype) for k, v in model.state_dict().items()}
    )


def _assigned(model: Model) -> None:
    state = {k: v + torch.rand_like(v.float()).to(v.dtype) for k, v in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def _optimised(model: Model) -> None:
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    torch.optim.SGD(model.parameters(), 0.1, momentum=0.9).step()


def _optimised_foreach(model: Model) -> None:
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    torch.optim.AdamW(model.parameters(), 0.1, foreach=True).step()


def _through_numpy(model: Model) -> None:
    for p in model.parameters():
        p.detach().numpy()[...] += 1


CHANGES = [
    _in_place,
    _replaced,
    _data_replaced,
    _loaded,
    _assigned,
    _optimised,
    _optimised_foreach,
    # No version counter sees these two (runtime/samples.py).
    _data_written,
    _through_numpy,
]


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("memory", ["unified", "discrete"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__[1:])
def test_changed_parameters(change: Callable[[Model], None], memory: str, grad: bool) -> None:
    model = new_model().requires_grad_(grad)
    function = compiled(model, two_drivers()[0], memory=memory)
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            for _ in range(2):
                x = random(2, 3, 7, 5)
                torch.testing.assert_close(function(x), model(x), rtol=1e-4, atol=1e-4)
            change(model)


@each_driver
def test_instances_do_not_share_packed_weights(driver: str) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(17, 17) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x).relu()
            return x

    models = [Twice().requires_grad_(False) for _ in range(2)]
    functions = [compiled(m, driver) for m in models]
    for _ in range(2):
        for model, function in zip(models, functions, strict=True):
            x = random(5, 17)
            torch.testing.assert_close(function(x), model(x))


@each_driver
def test_one_function_with_two_modules(driver: str) -> None:
    def apply(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).relu()

    function = compiled(apply, driver)
    models = [nn.Linear(17, 9).requires_grad_(False) for _ in range(3)]
    for model in models * 2:
        x = random(5, 17)
        torch.testing.assert_close(function(model, x), apply(model, x))


@each_driver
def test_inference_mode(driver: str) -> None:
    model = new_model()
    function = compiled(model, driver)
    for _ in range(2):
        x = random(2, 3, 7, 5)
        with torch.inference_mode():
            torch.testing.assert_close(function(x), model(x), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(function(x.clone()), model(x.clone()), rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            torch.testing.assert_close(function(x), model(x), rtol=1e-4, atol=1e-4)
            model.linear.weight.mul_(2)


def test_parameters_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model = new_model()
        function = compiled(model, two_drivers()[0])
        for _ in range(3):
            x = random(2, 3, 7, 5)
            torch.testing.assert_close(function(x), model(x), rtol=1e-4, atol=1e-4)
            model.linear.weight.mul_(2)
            model.conv.bias.add_(1)


@each_driver
def test_training_then_evaluation(driver: str) -> None:
    model = new_model()
    function = compiled(model, driver)
    other = new_model()
    other.load_state_dict(model.state_dict())
    for mode in (True, False, True, False):
        model.train(mode)
        other.train(mode)
        x = random(4, 3, 7, 5)
        loss, expected = function(x).square().mean(), other(x).square().mean()
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
        for m, value in ((model, loss), (other, expected)):
            m.zero_grad()
            value.backward()
            with torch.no_grad():
                for p in m.parameters():
                    p.sub_(0.01 * p.grad)
        for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_deleted_model_frees_memory() -> None:
    import gc
    import weakref

    model = nn.Linear(257, 129).requires_grad_(False)
    alive = weakref.ref(model.weight)
    function = compiled(model, two_drivers()[0])
    function(random(3, 257))
    del function, model
    torch.compiler.reset()
    gc.collect()
    assert alive() is None
