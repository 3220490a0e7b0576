"""Dropout and other randomness under autograd: the backward agrees with its forward."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, compiled, two_drivers
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

from ocl_inductor.operators.random_numbers import ops

SHAPES: tuple[tuple[int, ...], ...] = ((0, 3), (1,), (7,), (31, 33), (4, 5, 64))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def mask_of(seed: int, stream: int, size: Any, p: float) -> torch.Tensor:
    """What a call that follows ``torch.manual_seed(seed)`` keeps."""
    torch.manual_seed(seed)
    seed_tensor = ops.draw_seed("forward")
    return ops.random(seed_tensor, stream, list(size), "uniform", torch.float32) >= p


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward_and_backward(shape: tuple[int, ...], driver: str, profile: str) -> None:
    fn = compiled(lambda x: F.dropout(x.sin(), 0.3), driver, profile=profile)
    for seed in (1, 2):
        x = torch.randn(shape, requires_grad=True)
        grad = torch.randn(shape)
        torch.manual_seed(seed)
        y = fn(x)
        torch.rand(100)  # what the generator does in between does not matter
        y.backward(grad)
        scale = mask_of(seed, 0, shape, 0.3) / 0.7
        torch.testing.assert_close(y, x.sin() * scale)
        torch.testing.assert_close(x.grad, grad * x.detach().cos() * scale)
    assert counters["opencl"]["fallbacks"] == 0


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype: torch.dtype, driver: str) -> None:
    x = torch.randn(300, dtype=dtype).requires_grad_()
    torch.manual_seed(3)
    y = compiled(lambda x: F.dropout(x, 0.25), driver)(x)
    y.sum().backward()
    scale = mask_of(3, 0, (300,), 0.25).double() / 0.75
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), x.double() * scale, rtol=2 * eps, atol=0)
    assert x.grad is not None and x.grad.dtype is dtype
    torch.testing.assert_close(x.grad.double(), scale, rtol=2 * eps, atol=0)


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_extreme_probabilities(p: float, driver: str) -> None:
    x = torch.randn(50, requires_grad=True)
    y = compiled(lambda x: F.dropout(x * 2, p), driver)(x)
    y.sum().backward()
    torch.testing.assert_close(y, x * 2 * (1 - p))
    torch.testing.assert_close(x.grad, torch.full((50,), 2 * (1 - p)))


@pytest.mark.parametrize("driver", two_drivers())
def test_infinity_and_nan_as_in_eager(driver: str) -> None:
    """A dropped infinity is NaN, because eager multiplies by the mask."""
    x = torch.tensor([math.inf, -math.inf, math.nan, -1.0]).repeat(50)
    torch.manual_seed(4)
    y = compiled(lambda x: F.dropout(x, 0.5), driver)(x)
    torch.testing.assert_close(y, x * mask_of(4, 0, x.shape, 0.5) * 2, equal_nan=True)


@pytest.mark.parametrize("driver", two_drivers())
def test_module_in_both_modes(driver: str) -> None:
    model = nn.Sequential(nn.Dropout(0.2), nn.Dropout(0.5))
    fn = compiled(model, driver)
    x = torch.ones(200, 100)
    y = fn(x)
    kept = (y != 0).float()
    assert abs(kept.mean() - 0.4) < 4 * math.sqrt(0.4 * 0.6 / x.numel())
    assert abs(kept.mean(0) - 0.4).max() < 6 * math.sqrt(0.4 * 0.6 / 200)
    torch.testing.assert_close(y, kept / 0.4)
    model.eval()
    assert torch.equal(fn(x), x)
    model.train()
    assert not torch.equal(fn(x), y)


@pytest.mark.parametrize("driver", two_drivers())
def test_nothing_is_saved_but_a_seed(driver: str) -> None:
    """Of a dropout between two that need no input, the backward gets eight bytes."""
    saved: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        saved.append(t)
        return t

    x = torch.randn(64, 64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = compiled(lambda x: F.dropout(F.dropout(x, 0.5) * 3, 0.5), driver)(x)
    assert sum(t.nbytes for t in saved) == 8
    y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0)


@pytest.mark.parametrize("driver", two_drivers())
def test_backward_twice(driver: str) -> None:
    x = torch.randn(100, requires_grad=True)
    y = compiled(lambda x: F.dropout(x * x, 0.5), driver)(x)
    first, second = (torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


class _Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * torch.rand_like(grad)


@pytest.mark.parametrize("driver", two_drivers())
def test_random_backward_draws_at_each_run(driver: str) -> None:
    x = torch.ones(100, requires_grad=True)
    y = compiled(lambda x: _Noisy.apply(x) * 1.5, driver)(x)
    first, second = (torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for _ in range(2))
    assert not torch.equal(first, second)
    assert (first >= 0).all() and (first < 1.5).all()


@pytest.mark.parametrize("driver", two_drivers())
def test_checkpointed_region(driver: str) -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x.sin(), 0.5) * 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x * 3, use_reentrant=False) + 1  # type: ignore[no-any-return]

    x = torch.randn(300, requires_grad=True)
    y = compiled(fn, driver)(x)
    y.sum().backward()
    kept = y.detach() != 1
    assert 100 < kept.sum() < 200
    torch.testing.assert_close(x.grad, torch.where(kept, 12 * (x.detach() * 3).cos(), 0))


@pytest.mark.parametrize("driver", two_drivers())
def test_symbolic_sizes(driver: str) -> None:
    fn = compiled(lambda x: F.dropout(x.exp(), 0.4), driver, dynamic=True)
    for n, m in ((3, 5), (16, 16), (65, 2)):
        x = torch.randn(n, m, requires_grad=True)
        torch.manual_seed(n)
        y = fn(x)
        y.sum().backward()
        scale = mask_of(n, 0, (n, m), 0.4) / 0.6
        torch.testing.assert_close(y, x.exp() * scale)
        torch.testing.assert_close(x.grad, y)


@pytest.mark.parametrize("driver", two_drivers())
def test_attention_with_dropout(driver: str) -> None:
    """The weights that are dropped have no gradient: attend over unit vectors to see them."""

    def fn(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, v, dropout_p=0.5)

    q = torch.zeros(2, 2, 6, 6)
    v = torch.eye(6).expand(2, 2, 6, 6).clone().requires_grad_()
    y = compiled(fn, driver)(q, v)
    y.sum().backward()
    assert ((y == 0) | (y - 2 / 6 < 1e-6)).all() and 0.3 < (y == 0).float().mean() < 0.7
    columns = y.detach().sum(-2).unsqueeze(-1).expand(2, 2, 6, 6)
    torch.testing.assert_close(v.grad, columns)


@pytest.mark.parametrize("driver", two_drivers())
def test_transformer_layer_in_training(driver: str) -> None:
    """No fallback; and without randomness the same function as eager."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True).train()
    x = torch.randn(2, 7, 32, requires_grad=True)
    fn = compiled(layer, driver)
    torch.manual_seed(5)
    y = fn(x)
    y.square().sum().backward()
    grads = [p.grad for p in layer.parameters()]
    assert counters["opencl"]["fallbacks"] == 0
    assert all(g is not None and g.isfinite().all() for g in (*grads, x.grad))
    torch.manual_seed(5)
    assert torch.equal(fn(x), y) and not torch.equal(fn(x), y)
    # The average over many masks is near what is computed without any.
    with torch.no_grad():
        mean = torch.stack([fn(x) for _ in range(200)]).mean(0)
        layer.eval()
        assert (mean - layer(x)).abs().max() < 0.25


@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_gradient_by_differences(driver: str) -> None:
    """The compiled gradient is that of the compiled function, at one seed."""
    fn = compiled(lambda x: F.dropout(x.sin() * x, 0.4).sum(), driver)

    def at(x: torch.Tensor) -> float:
        torch.manual_seed(8)
        return float(fn(x))

    x = torch.randn(12, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(8)
    fn(x).backward()
    assert x.grad is not None
    for k in range(12):
        step = torch.zeros(12, dtype=torch.float64)
        step[k] = 1e-5
        slope = (at(x.detach() + step) - at(x.detach() - step)) / 2e-5
        assert abs(slope - x.grad[k]) < 1e-6
