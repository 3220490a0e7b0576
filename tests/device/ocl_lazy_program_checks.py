"""What ``test_ocl.py`` runs in a process of its own: ``torch.ocl.lazy()`` in programs: gradients,
settings, threads, limits, errors, training.

The device, and whether its memory is the host's or its own, come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY.
"""

from __future__ import annotations

import copy
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from lazy_counts import (  # noqa: F401  (fresh: for each test)
    close,
    fresh,
    graphs,
    hits,
    one_by_one,
    pending,
)
from torch import nn
from torch.nn import functional as F
from torch.optim.optimizer import _global_optimizer_post_hooks
from torch.utils.checkpoint import checkpoint

import ocl_inductor.eager  # noqa: F401
from ocl_inductor.eager.lazy import budget
from ocl_inductor.eager.lazy.switch import _State
from ocl_inductor.errors import DeviceMemoryError, IndexOutOfRangeError, NotComputedError

Tensor = torch.Tensor
DISCRETE = os.environ.get("OCL_INDUCTOR_MEMORY") in ("discrete", "buffers")


# -- autograd, random numbers, settings ----------------------------------------------------


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return gradient * 2 + (y - 2 * x)


def test_gradients() -> None:
    x, w = torch.randn(6, 5), torch.randn(5, 5)
    results = []
    for device in ("cpu", "ocl"):
        seen: list[Tensor] = []
        kind = torch.float64 if device == "cpu" else torch.float32
        a = x.to(device, kind).requires_grad_()
        b = w.to(device, kind).requires_grad_()
        with torch.ocl.lazy():
            y = torch.sigmoid(a @ b)
            y.register_hook(lambda g, seen=seen: seen.append(g * 2))
            z = checkpoint(lambda t: t.exp().tanh(), Doubled.apply(y), use_reentrant=False)
            with torch.no_grad():
                frozen = z * 2
            loss = (z * frozen.detach()).sum() + y.pow(2).mean()
            (first,) = torch.autograd.grad(loss, a, create_graph=True)
            loss.backward(retain_graph=True)
            first.sum().backward()
        results.append([a.grad, b.grad, first, *seen])
    for found, expected in zip(results[1], results[0], strict=True):
        assert found is not None and expected is not None
        torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-3, atol=1e-5)


def test_autocast() -> None:
    x, w = torch.randn(6, 5), torch.randn(5, 5)
    found = []
    for lazily in (False, True):
        a, b = x.to("ocl").requires_grad_(), w.to("ocl")
        torch.ocl.set_lazy(lazily)
        with torch.autocast("ocl", dtype=torch.bfloat16):
            y = a @ b
            z = y.exp()
        z.sum().backward()
        torch.ocl.set_lazy(False)
        assert (y.dtype, z.dtype) == (torch.bfloat16, torch.float32)
        found.append((y.detach().cpu(), z.detach().cpu(), a.grad.cpu()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=2e-2, atol=2e-2)


def test_random_numbers_are_those_of_eager() -> None:
    def program(x: Tensor) -> list[Tensor]:
        y = F.dropout(x * 2, 0.5)
        z = torch.randn_like(y) + torch.rand(4, device=x.device)[:, None]
        w = (y + z).bernoulli_(0.5) + torch.empty_like(x).normal_()
        return [y, z, w, torch.randperm(7, device=x.device)]

    x = torch.randn(4, 6).to("ocl")
    torch.manual_seed(3)
    expected = [t.cpu() for t in program(x)]
    torch.manual_seed(3)
    with torch.ocl.lazy():
        found = program(x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)
    assert not expected[0].equal(x.cpu() * 2)


def test_a_default_dtype_that_changes() -> None:
    x = torch.arange(4)
    there = x.to("ocl")
    with torch.ocl.lazy():
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            try:
                found, expected = there * 0.5, x * 0.5
            finally:
                torch.set_default_dtype(torch.float32)
            assert found.dtype == dtype
            close(found, expected)


def test_inference_mode() -> None:
    x = torch.randn(5)
    with torch.ocl.lazy():
        home = x.to("ocl") * 2
        with torch.inference_mode():
            inside = home + 1
            home.add_(inside)
        home.mul_(2)
        close(home, (x * 2 + x * 2 + 1) * 2)


def test_threads() -> None:
    x = torch.randn(64)
    there = x.to("ocl")
    wrong: list[int] = []

    def work(start: int) -> None:
        for n in range(30):
            y = there * (start + n)
            z = (y + 1).relu()
            if not torch.allclose(z.cpu(), (x * (start + n) + 1).relu()):
                wrong.append(n)

    with torch.ocl.lazy():
        threads = [threading.Thread(target=work, args=(k,)) for k in (1, 100, 1000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


# -- limits and errors ---------------------------------------------------------------------


def test_a_structure_that_changes_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not compiled without end, and the program is told once."""
    _State.record = None
    with torch.ocl.lazy():
        record = _State.record
        assert record is not None
        record._budget._left = 5.0
        said: list[str] = []
        monkeypatch.setattr(budget._log, "warning", lambda *text: said.append(text[0]))
        for n in range(1, 20):
            x = torch.randn(n)
            close((x.to("ocl") + 1).relu(), (x + 1).relu())
        assert len(said) == 1 and "keep changing" in said[0]
        assert graphs() == 5
        assert one_by_one() == 14
        x = torch.randn(3)
        close((x.to("ocl") + 1).relu(), (x + 1).relu())  # a known one
        assert graphs() == 5 and one_by_one() == 14


def test_parts_of_a_copy_are_replaced_while_it_has_no_memory() -> None:
    """PyTorch's own implementation of these asks how large the storage is."""

    def several(x: Tensor) -> list[Tensor]:
        a = x + 1
        return [
            torch.select_scatter(a, a.select(0, 0) * 2, 0, -1),
            torch.select_scatter(a.transpose(0, 1), a.select(1, 0) * 2, 0, 1),
            torch.slice_scatter(a, a[:2] * 3, 0, 1, 3),
            torch.diagonal_scatter(a, a.diagonal(0, 0, 1) * 2, 0, 0, 1),
            torch.as_strided_scatter(a, a[:2, :2, 0] * 2, (2, 2), (1, 2)),
        ]

    x = torch.randn(3, 4, 5)
    with torch.ocl.lazy():
        for found, expected in zip(several(x.to("ocl")), several(x), strict=True):
            assert pending(found) or graphs()
            assert found.stride() == expected.stride()
            close(found, expected)
        assert graphs() == 1 and one_by_one() == 0


def test_a_long_record_ends_by_itself() -> None:
    x = torch.randn(7)
    there = x.to("ocl")
    _State.record = None
    with torch.ocl.lazy():
        assert _State.record is not None
        _State.record.most_calls = 100
        y, expected = there, x
        for _ in range(3):
            for _ in range(13):
                y, expected = y + 1, expected + 1
            for _ in range(17):
                y, expected = y * 0.5, expected * 0.5
        assert pending(y)
        for _ in range(13):
            y = y + 1
        assert graphs() == 1
        close(y, expected + 13)
    _State.record = None


def test_a_step_of_training_is_a_graph_though_no_number_is_asked_for() -> None:
    """Its loop comes around with the optimiser, not where the first line of a record is called
    again: here that is within the step, as layers share lines."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(8)))
    x, rounds = torch.randn(5, 6), 10

    def losses(model: nn.Module, x: Tensor) -> list[Tensor]:
        optimiser = torch.optim.Adam(model.parameters(), 0.01, foreach=False)
        found = []
        for _ in range(rounds):
            optimiser.zero_grad()
            loss = model(x).tanh().square().sum()
            loss.backward()
            optimiser.step()
            found.append(loss.detach())
        return found

    expected = losses(copy.deepcopy(model).double(), x.double())
    there = copy.deepcopy(model).to("ocl")
    with torch.ocl.lazy():
        found = losses(there, x.to("ocl"))
        assert graphs() <= 3  # the first step makes Adam's state; then numbers become arguments
        assert hits() == rounds - graphs()
        close(torch.stack(found), torch.stack(expected).float(), rtol=1e-4, atol=1e-5)
    # No hook stays behind.
    assert not _global_optimizer_post_hooks


def test_an_operator_without_a_lowering_is_tried_once() -> None:
    x = torch.randn(4, 4)
    spd = x @ x.t() + torch.eye(4)
    with torch.ocl.lazy():
        for _ in range(3):
            a = spd.to("ocl") * 2
            found = torch.linalg.cholesky(a) + 1
            close(found, torch.linalg.cholesky(spd * 2) + 1, rtol=1e-4, atol=1e-4)
    assert one_by_one() <= 1


def test_an_error_names_the_line_that_called_the_operator() -> None:
    table = torch.randn(5, 4).to("ocl")

    def rows(index: list[int]) -> Tensor:
        return torch.tensor(index).to("ocl")

    with torch.ocl.lazy():
        close(F.embedding(rows([1, 4]), table) * 2, table.cpu()[[1, 4]] * 2)
        broken = F.embedding(rows([1, 7]), table)  # this one
        with pytest.raises(IndexOutOfRangeError) as found:
            (broken * 2).cpu()
        assert "# this one" in str(found.value)
        assert Path(__file__).name in str(found.value)
        with pytest.raises(NotComputedError, match="# this one"):
            broken.cpu()
        with pytest.raises(NotComputedError, match="index 7"):
            broken + 1
        close(F.embedding(rows([0, 3]), table) * 2, table.cpu()[[0, 3]] * 2)


def test_an_error_in_a_backward_pass() -> None:
    x = torch.ones(3, device="ocl", requires_grad=True)
    with torch.ocl.lazy():
        y = (x * 2).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        assert x.grad is not None
        close(x.grad, torch.full((3,), 2.0))


def test_more_memory_than_there_is() -> None:
    x = torch.randn(100).to("ocl")
    with torch.ocl.lazy():
        with pytest.raises(DeviceMemoryError, match="asked"):
            torch.empty(1 << 50, dtype=torch.uint8, device="ocl")
        small = x * 2
        big = x[:, None, None, None, None].expand(100, 100, 100, 1000, 1000) + 1  # too much
        with pytest.raises(RuntimeError) as found:  # or a DeviceMemoryError, which is one
            torch.ocl.synchronize()
        assert "# too much" in str(found.value)
        del big
        with pytest.raises(NotComputedError):
            small.cpu()
        close(x * 3, x.cpu() * 3)


# -- training ------------------------------------------------------------------------------


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 10),
        )  # fmt: skip

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(self.body(x), target)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_training(kind: str) -> None:
    """A step is one graph: forward, backward and the optimiser; the losses are eager's."""
    model = Small()
    wide = copy.deepcopy(model).double()
    model.to("ocl")

    def optimiser(m: nn.Module) -> torch.optim.Optimizer:
        if kind == "adam":
            return torch.optim.Adam(m.parameters(), lr=0.01)
        return torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9 * (kind == "momentum"))

    ours, theirs = optimiser(model), optimiser(wide)
    with torch.ocl.lazy():
        for n in range(7):
            x, target = torch.randn(16, 1, 8, 8), torch.randint(10, (16,))
            there = x.to("ocl"), target.to("ocl")
            ours.zero_grad()
            loss = model(*there)
            loss.backward()
            assert pending(loss)
            ours.step()
            assert not pending(loss)
            made = graphs()
            expected = wide(x.double(), target)
            torch.testing.assert_close(loss.item(), expected.item(), rtol=1e-4, atol=1e-5)
            theirs.zero_grad()
            expected.backward()
            theirs.step()
            assert n < 3 or graphs() == made
        assert graphs() <= 3 and one_by_one() == 0
        assert hits() >= 4
    for p, q in zip(model.parameters(), wide.parameters(), strict=True):
        torch.testing.assert_close(p.detach().cpu().double(), q.detach(), rtol=1e-3, atol=1e-4)
    for p, q in zip(model.buffers(), wide.buffers(), strict=True):
        torch.testing.assert_close(p.cpu().to(q.dtype), q, rtol=1e-4, atol=1e-5)
