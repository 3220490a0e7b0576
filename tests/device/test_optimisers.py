"""Optimisers and whole training steps: compiled ones follow eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from agreement import assert_same, compiled, random, two_drivers
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

Optimiser = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

SIZES = ((3, 5), (), (17,), (0, 2), (2, 3, 4))


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


OPTIMISERS: dict[str, Optimiser] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3, foreach=True),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, foreach=True),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.01, foreach=True, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, foreach=True, weight_decay=0.1),
    "adam one by one": lambda p: torch.optim.Adam(p, 0.01, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, foreach=True, momentum=0.9),
}


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(
    "name",
    ["sgd", "adamw", *(slow(n) for n in OPTIMISERS if n not in ("sgd", "adamw"))],
)
def test_step(name: str, driver: str) -> None:
    ours = nn.ParameterList([nn.Parameter(random(*s)) for s in SIZES])
    theirs = copy.deepcopy(ours)
    mine, its = OPTIMISERS[name](ours), OPTIMISERS[name](theirs)
    step = torch.compile(
        mine.step, backend="opencl", options={"device": driver, "fallback": "error"}
    )
    for i in range(5):
        if i == 3:  # a schedule changes it between steps
            for group in (*mine.param_groups, *its.param_groups):
                group["lr"] *= 0.1
        for p, q in zip(ours, theirs, strict=True):
            p.grad = random(*p.shape)
            q.grad = p.grad.clone()
        step()
        its.step()
        # Compiled steps compute bias corrections in float32 (1 - 0.999 loses 4 digits), eager in
        # Python's float64: PyTorch's own choice for steps in tensors.
        assert_same(list(ours), list(theirs), rtol=1e-5, atol=2e-6)
    assert counters["opencl"]["fallbacks"] == 0
    assert counters["opencl"]["kernels"] > 0


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("profile", ["vector", slow("simt")])
@pytest.mark.parametrize("name", ["adamw", *(slow(n) for n in OPTIMISERS if n != "adamw")])
def test_many_parameters_take_few_launches(name: str, profile: str, driver: str) -> None:
    sizes = [(16,), (33, 5), (), (48, 16), (7,), (16, 1, 3)] * 10
    ours = nn.ParameterList([nn.Parameter(random(*s)) for s in sizes])
    theirs = copy.deepcopy(ours)
    mine, its = OPTIMISERS[name](ours), OPTIMISERS[name](theirs)
    options = {"device": driver, "profile": profile, "fallback": "error"}
    step = torch.compile(mine.step, backend="opencl", options=options)
    for _ in range(3):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = random(*p.shape)
            q.grad = p.grad.clone()
        step()
        its.step()
        assert_same(list(ours), list(theirs), rtol=1e-5, atol=2e-6)
    found = counters["opencl"]
    assert found["fallbacks"] == 0
    # Forms differ where sizes leave a rest after whole vectors; each may need two launches, as the
    # number of a kernel's arguments is limited.
    assert 0 < found["kernels"] / found["graphs"] <= 12


class SmallCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.SiLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.GroupNorm(4, 16),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


class SmallTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


def batch(model: nn.Module) -> tuple[Tensor, Tensor]:
    labels = torch.arange(8) % 5
    if isinstance(model, SmallCNN):
        return random(8, 3, 12, 12), labels
    return torch.randint(0, 11, (8, 9)), labels


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(
    ("build", "optimiser"), [(SmallCNN, "sgd"), slow(SmallTransformer, "adamw")]
)
def test_whole_training_steps(build: type[nn.Module], optimiser: str, driver: str) -> None:
    """Loss by loss, forward, backward and update in one compiled function."""
    ours = build()
    theirs = copy.deepcopy(ours)

    def trainer(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
        chosen = OPTIMISERS[optimiser](model.parameters())

        def train(x: Tensor, labels: Tensor) -> Tensor:
            chosen.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
            chosen.step()
            return loss.detach()

        return train

    options = {"device": driver, "fallback": "error"}
    mine, its = torch.compile(trainer(ours), backend="opencl", options=options), trainer(theirs)
    x, labels = batch(ours)
    losses, expected = [], []
    for _ in range(10):
        losses.append(mine(x, labels).item())
        expected.append(its(x, labels).item())
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-4)
    assert losses[-1] < 0.9 * losses[0]
    assert counters["opencl"]["fallbacks"] == 0
    # Batch norms' running statistics followed too.
    for mean, wanted in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(mean, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("build", [SmallCNN, slow(SmallTransformer)])
def test_autocast(build: type[nn.Module], driver: str) -> None:
    """bfloat16 rounds at other places than in eager: as near to float32's gradients as eager's."""
    model = build()
    x, labels = batch(model)
    call = compiled(model, driver)

    def gradients(forward: Callable[..., Tensor], enabled: bool) -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = forward(x)
        assert out.dtype is (torch.bfloat16 if enabled else torch.float32)
        loss = F.cross_entropy(out.float(), labels)
        return list(torch.autograd.grad(loss, list(model.parameters())))

    exact = gradients(model, False)
    eager, ours = gradients(model, True), gradients(call, True)
    largest = max(e.abs().max().item() for e in exact)
    for e, t, o in zip(exact, eager, ours, strict=True):
        assert o.dtype == t.dtype
        allowed = 2 * (t - e).abs().max().item() + 0.02 * largest
        assert (o - e).abs().max().item() <= allowed


@pytest.mark.parametrize("driver", two_drivers())
def test_scaled_gradients(driver: str) -> None:
    """GradScaler skips the step whose gradients are infinite and takes the others."""
    ours = SmallCNN()
    theirs = copy.deepcopy(ours)
    x, labels = batch(ours)
    call = compiled(ours, driver)
    results = []
    for model, forward in ((ours, call), (theirs, theirs)):
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        for i in range(4):
            optimiser.zero_grad()
            loss = F.cross_entropy(forward(x), labels)
            scaler.scale(loss * (float("inf") if i == 1 else 1.0)).backward()
            scaler.step(optimiser)
            scaler.update()
        results.append((scaler.get_scale(), [p.detach() for p in model.parameters()]))
    assert results[0][0] == results[1][0] == 2.0**9
    assert_same(results[0][1], results[1][1], rtol=1e-3, atol=1e-4)
