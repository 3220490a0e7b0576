"""Saved activations that are views into one: what begins inside of a tensor that stayed on the
device is read there, or brought home; host memory never had it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from agreement import compiled, poisoned_memory, random, two_drivers
from torch import Tensor, nn
from torch._dynamo.utils import counters

Use = Callable[[Tensor], Tensor]


def attention(x: Tensor) -> Tensor:
    """Query, key and value as chunks of one projection, as most transformers have them."""
    batch, rows, width = x.shape
    heads = [t.view(batch, rows, 4, width // 12).transpose(1, 2) for t in x.chunk(3, -1)]
    return nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2)


USES: dict[str, Use] = {
    "attention": attention,
    "chunk": lambda x: x.chunk(3, -1)[0] * x.chunk(3, -1)[2],
    "split in columns": lambda x: x[..., :5].exp() @ x[..., 5:37].mT.contiguous()[:, :5].sin(),
    "unbind": lambda x: x.unbind(1)[3] * x.unbind(1)[0].sigmoid(),
    "rows": lambda x: x[1:].tanh() * x[:1],
    "steps": lambda x: x[:, 1::2] * x[:, ::2],
    "narrow, turned": lambda x: x.narrow(2, 4, 16).mT @ x.narrow(1, 0, 24)[..., 16:32],
}


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("width", [96, 1536])
def test_gradients_in_discrete_memory(driver: str, use: str, width: int) -> None:
    """Columns that begin at no aligned place of a buffer, and columns that do."""
    layer = nn.Linear(32, width)
    exact = copy.deepcopy(layer).double()
    x = random(2, 24, 32)
    function = compiled(lambda x: USES[use](layer(x)), driver, memory="discrete")
    for _ in range(2):
        layer.zero_grad()
        with poisoned_memory():
            result = function(x)
            grad = torch.linspace(-1, 1, result.numel()).view(result.shape)
            result.backward(grad)
        exact.zero_grad()
        expected = USES[use](exact(x.double()))
        expected.backward(grad.double())
        torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-4)
        for ours, theirs in zip(layer.parameters(), exact.parameters(), strict=True):
            assert ours.grad is not None
            scale = float(theirs.grad.abs().max())
            torch.testing.assert_close(
                ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-5 * scale
            )


def test_aligned_views_stay_on_the_device() -> None:
    """Nothing but the results and gradients crosses the bus."""
    layer = nn.Linear(32, 1536)  # a third of a row is 2 KiB
    function = compiled(lambda x: attention(layer(x)), two_drivers()[0], memory="discrete")
    x = random(2, 24, 32)
    for _ in range(2):
        layer.zero_grad()
        counters["opencl"].clear()
        result = function(x)
        result.backward(torch.ones_like(result))
    crossed = sum(t.nbytes for t in (result, *(p.grad for p in layer.parameters())))
    assert counters["opencl"]["bytes_downloaded"] == crossed
