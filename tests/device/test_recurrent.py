"""RNN, LSTM, GRU and their cells with ``allow_rnn``: no fallback, gradients as eager's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from abilities import skip_where_shapes_differ
from agreement import assert_same, compiled, poisoned_memory, two_drivers
from torch import nn
from torch._dynamo.utils import counters

STEPS, BATCH, FEATURES, HIDDEN = 3, 3, 5, 6


@pytest.fixture(autouse=True)
def allowed() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


class Cells(nn.Module):
    """A loop over time written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNNCell(FEATURES, HIDDEN, nonlinearity="relu")
        self.lstm = nn.LSTMCell(HIDDEN, HIDDEN)
        self.gru = nn.GRUCell(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        a = b = c = d = x.new_zeros(x.shape[1], HIDDEN)
        for step in x:
            a = self.rnn(step, a)
            b, c = self.lstm(a, (b, c))
            d = self.gru(b, d)
        return b, c, d


def _modules() -> list[nn.Module]:
    torch.manual_seed(3)
    return [
        nn.RNN(FEATURES, HIDDEN, num_layers=2),
        nn.RNN(FEATURES, HIDDEN, nonlinearity="relu", bias=False, batch_first=True),
        nn.LSTM(FEATURES, HIDDEN, bidirectional=True),
        nn.LSTM(FEATURES, HIDDEN, proj_size=4),
        nn.GRU(FEATURES, HIDDEN, num_layers=2, bidirectional=True, batch_first=True),
        Cells(),
    ]


def _tensors(x: Any) -> list[torch.Tensor]:
    return [x] if isinstance(x, torch.Tensor) else [t for y in x for t in _tensors(y)]


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(
    "number", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 3, 4, 5))]
)
def test_results_and_gradients(driver: str, number: int) -> None:
    module = _modules()[number]
    x = torch.randn(STEPS, BATCH, FEATURES, requires_grad=True)
    skip_where_shapes_differ(module, x)  # the states of two directions, before 2.13
    before, graphs = counters["opencl"]["fallbacks"], counters["opencl"]["graphs"]
    found = []
    for function in (compiled(module, driver, fallback="error"), module):
        with poisoned_memory():
            results = _tensors(function(x))
            weighted = [(r * torch.linspace(1, 2, r.numel()).view(r.shape)).sum() for r in results]
            grads = torch.autograd.grad(sum(weighted), [x, *module.parameters()])
        found.append(([r.detach() for r in results], grads))
    assert_same(*found)
    assert counters["opencl"]["fallbacks"] == before
    assert counters["opencl"]["graphs"] > graphs


@pytest.mark.slow
@pytest.mark.parametrize("driver", two_drivers())
def test_given_states_without_gradients(driver: str) -> None:
    module = nn.LSTM(FEATURES, HIDDEN, num_layers=2).eval()
    args = (
        torch.randn(STEPS, BATCH, FEATURES),
        (
            torch.randn(2, BATCH, HIDDEN),
            torch.randn(2, BATCH, HIDDEN),
        ),
    )
    ours = compiled(module, driver, fallback="error")
    with torch.no_grad(), poisoned_memory():
        assert_same(_tensors(ours(*args)), _tensors(module(*args)))
