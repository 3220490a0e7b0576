"""Telling a kink from a wrong gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.run.kinks import explain, main
from torchbench_configs.models.choice import Choice

JOB = Job("accuracy", mode="training", backends=("opencl",))
NEAR = 1e-6  # what a backend's rounding moves the inputs of a ReLU by


@dataclass(frozen=True, slots=True)
class Toy:
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def loss(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs.square().sum()

    def optimizer(self) -> None:
        return None


def toy() -> tuple[Toy, torch.Tensor]:
    """Two layers, and by how much to move the input of the ReLU that is all but 0."""
    generator = torch.Generator().manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    x = torch.randn(4, 8, generator=generator)
    first = model[0].double()
    with torch.no_grad():
        first.bias[5] -= first(x.double())[2, 5]
    first.float()
    with torch.no_grad():
        value = first(x)[2, 5].item()
    assert abs(value) < NEAR / 2
    moved = torch.zeros(4, 16)
    moved[2, 5] = NEAR if value <= 0 else -NEAR
    return Toy(model, (x,)), moved


def backend(
    change: Callable[[torch.Tensor], torch.Tensor], kind: type[nn.Module] = nn.ReLU
) -> Callable[[nn.Module], nn.Module]:
    """Runs a module with ``change`` applied to what its first layer of ``kind`` gets."""

    def compile_(module: nn.Module) -> nn.Module:
        kink = next(m for m in module.modules() if isinstance(m, kind))
        kink.register_forward_pre_hook(lambda _, inputs: (change(inputs[0]),))
        return module

    return compile_


def test_a_kink_explains_a_whole_pixel() -> None:
    subject, moved = toy()
    other, found = explain(JOB, subject, backend(lambda x: x + moved))
    assert other == {("1", 0): 1}
    by_name = {e.name: e for e in found}
    for name in ("0.weight", "0.bias"):
        assert not by_name[name].accepted and by_name[name].effect > 0.1
        assert by_name[name].share == pytest.approx(1.0, abs=1e-4)
        assert by_name[name].rest < 1e-3 * by_name[name].effect
    assert by_name["2.weight"].accepted  # what lies behind the ReLU sees a value of 0 either way


class Proposes(nn.Module):
    """Weighs the two vectors that it likes best."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen = Choice()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best = (x @ self.weight.detach()).topk(2, dim=1).indices
        return self.chosen(x.gather(1, best[..., None].expand(-1, -1, 3))) * self.weight


def test_another_choice_explains_a_gradient() -> None:
    x = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(5))
    subject = Toy(Proposes(), (x,))

    def another(chosen: torch.Tensor) -> torch.Tensor:
        """One vector of the first sample is another."""
        changed = chosen.clone()
        changed[0, 1] = x[0, (x[0] @ subject.module.weight.detach()).argmin()]
        return changed

    other, (found,) = explain(JOB, subject, backend(another, Choice))
    assert other == {("chosen", 0): 1}
    assert not found.accepted and found.effect > 0.1
    assert found.share == pytest.approx(1.0, abs=1e-5) and found.rest < 1e-4 * found.effect


class Scaled(nn.Module):
    """Each pixel times a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 1, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def test_another_pixel_of_a_window_explains_a_gradient() -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(1, 1, 4, 4, generator=generator)
    x[0, 0, 0, 0], x[0, 0, 1, 1] = 2.0, 2.0 - NEAR / 2  # all but equal, and the window's largest
    moved = torch.zeros_like(x)
    moved[0, 0, 1, 1] = NEAR
    subject = Toy(nn.Sequential(Scaled(), nn.MaxPool2d(2)), (x,))
    other, found = explain(JOB, subject, backend(lambda value: value + moved, nn.MaxPool2d))
    assert other == {("1", 0): 1}
    (weight,) = found
    assert not weight.accepted and weight.effect > 1
    assert weight.share == pytest.approx(1.0, abs=1e-4) and weight.rest < 1e-4


def test_a_wrong_gradient_is_not_explained() -> None:
    subject, _ = toy()
    other, found = explain(JOB, subject, backend(lambda x: 1.01 * x - 0.01 * x.detach()))
    assert not other
    wrong = {e.name: e for e in found if not e.accepted}
    assert wrong.keys() == {"0.weight", "0.bias"}
    assert all(e.effect == 0 == e.share for e in wrong.values())


def test_a_kink_does_not_explain_all_of_a_wrong_gradient() -> None:
    subject, moved = toy()
    _, found = explain(JOB, subject, backend(lambda x: 1.5 * x - 0.5 * x.detach() + moved))
    shares = [e.share for e in found if not e.accepted]
    assert shares and all(abs(share - 1) > 0.1 for share in shares)


def test_a_row_that_does_not_exist_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["no_such_row"])
    assert result.exit_code == 2 and "no_such_row" in result.output
