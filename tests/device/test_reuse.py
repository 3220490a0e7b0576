"""Gradients and scratch memory where saved activations lay: right, and seen by nobody."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import poisoned_memory, two_drivers
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.runtime.memory import block
from ocl_inductor.runtime.memory.block import block_around

WIDTH, ROWS, LAYERS = 512, 256, 6

Train = Callable[[nn.Module, torch.Tensor], None]


@pytest.fixture(params=two_drivers(), autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    torch.compiler.reset()
    with poisoned_memory():
        yield request.param


def layers() -> nn.Module:
    """As much in gradients as in activations."""
    return nn.Sequential(*(m for _ in range(LAYERS) for m in (nn.Linear(WIDTH, WIDTH), nn.GELU())))


def images() -> nn.Module:
    """Far more in activations, and scratch memory as large as some of them."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.GELU(),
        nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.SiLU(),
        nn.Conv2d(32, 8, 1), nn.Flatten(1),
    )  # fmt: skip


class Heads(nn.Module):
    """Saves three views of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.together, self.last = nn.Linear(256, 768), nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (4, 64)).transpose(1, 2) for t in self.together(x).chunk(3, -1))
        found = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.last(found.transpose(1, 2).flatten(-2))


INPUTS = {layers: (ROWS, WIDTH), images: (4, 3, 48, 48), Heads: (4, 128, 256)}


def twins(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    model, eager = make(), make()
    eager.load_state_dict(model.state_dict())
    return model, eager


def compiled(model: nn.Module, device: str) -> Any:
    return torch.compile(model, backend="opencl", options={"device": device})


def loss(y: torch.Tensor) -> torch.Tensor:
    return y.square().sum()


def reused() -> int:
    """Bytes that were placed among saved activations since the last question."""
    return counters["opencl"].pop("bytes_in_saved_memory", 0)


def assert_same_gradients(model: nn.Module, eager: nn.Module) -> None:
    for (name, p), q in zip(model.named_parameters(), eager.parameters(), strict=True):
        assert p.grad is not None and q.grad is not None
        scale = float(q.grad.abs().max())
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=2e-5 * scale, msg=name)


def zero_first(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> None:
    model.zero_grad()
    loss(run(x)).backward()


def zero_between(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> None:
    y = loss(run(x))
    model.zero_grad()
    y.backward()


def zero_in_place(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> None:
    model.zero_grad(set_to_none=False)
    loss(run(x)).backward()


def accumulate(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> None:
    loss(run(x)).backward()


def two_forwards(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> None:
    model.zero_grad()
    first, second = loss(run(x)), loss(run(x + 1))
    first.backward()
    second.backward()


def crossed(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> None:
    model.zero_grad()
    first, second = loss(run(x)), loss(run(x + 1))
    second.backward()
    first.backward()


def backward_twice(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> None:
    model.zero_grad()
    y = loss(run(x))
    y.backward(retain_graph=True)
    y.backward()


WAYS = (zero_first, zero_between, zero_in_place, accumulate, two_forwards, crossed, backward_twice)


@pytest.mark.parametrize("make", INPUTS)
@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_those_of_eager(make: Any, way: Any, device: str) -> None:
    model, eager = twins(make)
    run = compiled(model, device)
    for _ in range(5):
        x = torch.randn(INPUTS[make])
        way(model, run, x)
        way(eager, eager, x)
        assert_same_gradients(model, eager)
        assert reused() > 0


def test_each_gradient_has_a_storage_of_its_own(device: str) -> None:
    model = layers()
    run = compiled(model, device)
    zero_first(model, run, torch.randn(ROWS, WIDTH))
    assert reused() > WIDTH * WIDTH * 4 * LAYERS // 2
    spans = []
    for p in model.parameters():
        assert p.grad is not None
        storage = p.grad.untyped_storage()
        assert storage.nbytes() == p.numel() * 4
        spans.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    spans.sort()
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_not_while_the_graph_is_retained(device: str) -> None:
    model, eager = twins(layers)
    x = torch.randn(ROWS, WIDTH)
    y, z = loss(compiled(model, device)(x)), loss(eager(x))
    for _ in range(3):
        y.backward(retain_graph=True)
        z.backward(retain_graph=True)
        assert reused() == 0
    y.backward()
    z.backward()
    assert reused() > 0
    assert_same_gradients(model, eager)


def test_not_where_somebody_keeps_a_saved_tensor(device: str) -> None:
    model, eager = twins(layers)
    run = compiled(model, device)
    x = torch.randn(ROWS, WIDTH)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(t: torch.Tensor) -> torch.Tensor:
        kept.append((t, t.clone()))
        return t

    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            zero_first(model, run, x)
        assert reused() == 0
        zero_first(eager, eager, x)
        assert_same_gradients(model, eager)
    assert kept
    for t, before in kept:
        assert torch.equal(t, before)


def test_gradients_that_are_kept_stay(device: str) -> None:
    """Each keeps its block; from the third on they have memory of their own."""
    model, eager = twins(layers)
    run = compiled(model, device)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    chosen = None
    in_block = []
    for _ in range(6):
        x = torch.randn(ROWS, WIDTH)
        zero_first(model, run, x)
        zero_first(eager, eager, x)
        assert_same_gradients(model, eager)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        placed = [block_around(g.data_ptr()) is not None for g in grads]
        chosen = placed.index(True) if chosen is None else chosen
        in_block.append(placed[chosen])
        kept.append((grads[chosen], grads[chosen].clone()))
    assert in_block == [True, True, False, False, False, False]
    for t, before in kept:
        assert torch.equal(t, before)


def test_visible_activations_stay(device: str) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layers(), layers()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = self.first(x)
            return h, self.second(h)

    model, eager = twins(Both)
    run = compiled(model, device)
    for _ in range(3):
        x = torch.randn(ROWS, WIDTH)
        model.zero_grad()
        eager.zero_grad()
        h, y = run(x)
        before = h.detach().clone()
        loss(y).backward()
        loss(eager(x)[1]).backward()
        assert torch.equal(h, before)
        assert reused() > 0
        assert_same_gradients(model, eager)


def test_in_threads(device: str) -> None:
    model, eager = twins(layers)
    run = compiled(model, device)
    zero_first(model, run, torch.randn(ROWS, WIDTH))
    failures: list[BaseException] = []

    def train() -> None:
        try:
            for _ in range(6):
                x = torch.randn(ROWS, WIDTH)
                found = torch.autograd.grad(loss(run(x)), list(model.parameters()))
                wanted = torch.autograd.grad(loss(eager(x)), list(eager.parameters()))
                for f, w in zip(found, wanted, strict=True):
                    torch.testing.assert_close(f, w, rtol=1e-4, atol=2e-5 * float(w.abs().max()))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert reused() > 0


def test_memory_goes_back_on_reset(device: str) -> None:
    model = layers()
    zero_first(model, compiled(model, device), torch.randn(ROWS, WIDTH))
    model.zero_grad()
    assert len(block._blocks) > 0
    torch.compiler.reset()
    assert len(block._blocks) == 0
