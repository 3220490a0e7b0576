"""What ``test_ocl.py`` runs in a process of its own: plans on ``ocl`` tensors, kept on disk.

The device, and whether its memory is the host's or its own, come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

import ocl_inductor.eager  # noqa: F401
from ocl_inductor.eager.lazy.record import LazyRecord
from ocl_inductor.eager.lazy.switch import _State
from ocl_inductor.support.torch_versions import storages_take_memory

Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    yield
    torch._dynamo.reset()


def forget() -> None:
    counters.clear()
    torch._dynamo.reset()


def plans() -> tuple[int, int]:
    """Those found on disk and those compiled so far, of all kinds."""
    return counters["opencl"]["plan_hits"], counters["opencl"]["plan_misses"]


def functions() -> tuple[int, int]:
    """The same of compiled functions alone."""
    found = counters["aot_autograd"]
    return found["autograd_cache_hit"], found["autograd_cache_miss"]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.classify = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.norm(self.conv(x)).relu().flatten(1)
        return F.cross_entropy(self.classify(x), y)


def losses(model: nn.Module, x: Tensor, y: Tensor, loss: Callable[..., Tensor]) -> list[float]:
    rate, found = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), []
    for _ in range(3):
        rate.zero_grad()
        value = loss(x, y)
        value.backward()
        rate.step()
        found.append(value.item())
    return found


def test_a_training_step() -> None:
    x, y = torch.randn(4, 3, 6, 6), torch.randint(5, (4,))
    weights = Network().state_dict()

    def trained(device: str, *, compiled: bool = True) -> list[float]:
        model = Network()
        model.load_state_dict(weights)
        model.to(device)
        loss = torch.compile(model, backend="opencl") if compiled else model
        return losses(model, x.to(device), y.to(device), loss)

    expected = trained("cpu", compiled=False)
    # A plan for CPU tensors is none for tensors on the device.
    for device, hits, misses in (("cpu", 0, 1), ("ocl", 0, 1), ("ocl", 1, 0), ("cpu", 1, 0)):
        forget()
        assert trained(device) == pytest.approx(expected, rel=1e-4)
        assert functions() == (hits, misses), device


def test_results_of_both_kinds_and_sizes_of_data() -> None:
    def function(x: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
        return x.cpu() * n, x.sin() + n, x[x > 0].exp()

    for n, known in ((2, False), (2, True), (3, False)):
        forget()
        x = torch.randn(9).abs()
        x[::2] *= -1  # of one number of results
        found = torch.compile(function, backend="opencl")(x.to("ocl"), n)
        assert [f.device.type for f in found] == ["cpu", "ocl", "ocl"]
        for f, expected in zip(found, function(x.double(), n), strict=True):
            torch.testing.assert_close(f.cpu().double(), expected, rtol=1e-5, atol=1e-6)
        hits, misses = functions()
        assert hits and not misses if known else misses


needs_lazy_mode = pytest.mark.skipif(
    not storages_take_memory(),
    reason="this PyTorch has no lazy mode on ocl (docs/versions.md)",
)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that makes lazy mode forget all graphs, as a new process has none."""
    if torch.ocl.is_lazy():
        pytest.skip("lazy mode is on around all tests: its record stays")
    with torch.ocl.lazy():  # there is a record from here on
        pass

    def forget_graphs() -> None:
        monkeypatch.setattr(_State, "record", LazyRecord())
        forget()

    return forget_graphs


@needs_lazy_mode
def test_lazy_graphs(forgetful: Callable[[], None]) -> None:
    def rounds(x: Tensor, w: Tensor, scale: float) -> Tensor:
        for n in range(4):
            x = torch.tanh(x @ w + n) * scale
            x[1:].copy_(x[:1].expand(x.shape[0] - 1, -1) - 0.5)
        return x

    w = torch.randn(6, 6)
    for scale, hits, misses in ((0.5, 0, 1), (0.5, 1, 0), (0.25, 0, 1), (0.25, 1, 0)):
        forgetful()
        x = torch.randn(5, 6)
        with torch.ocl.lazy():
            found = rounds(x.to("ocl"), w.to("ocl"), scale).cpu()
        torch.testing.assert_close(found, rounds(x.double(), w.double(), scale).float())
        assert plans() == (hits, misses), scale


@needs_lazy_mode
def test_lazy_graphs_whose_numbers_change(forgetful: Callable[[], None]) -> None:
    for found_on_disk in (False, True):
        forgetful()
        for n in range(4):
            x = torch.randn(7)
            with torch.ocl.lazy():
                found = ((x.to("ocl") * (n + 0.5)).sin() + n).cpu()
            torch.testing.assert_close(found, (x.double() * (n + 0.5)).sin().add(n).float())
        hits, misses = plans()
        assert (hits, misses) == ((2, 0) if found_on_disk else (0, 2))
