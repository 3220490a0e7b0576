"""LSTM, GRU and RNN in the graph: results and gradients of all parameters, states and inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import PROFILES, assert_same, compiled, poisoned_memory, two_drivers
from torch import nn
from torch._dynamo.utils import counters

each_driver = pytest.mark.parametrize("driver", two_drivers())

STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 5, 6
Tensors = list[torch.Tensor]


@pytest.fixture(autouse=True)
def reset() -> None:
    torch._dynamo.reset()
    torch.manual_seed(3)


def _padded(*size: int) -> torch.Tensor:
    return torch.randn(*(size or (STEPS, BATCH, FEATURES)))


def _state(*lead: int, hidden: int = HIDDEN) -> torch.Tensor:
    return torch.randn(*lead, hidden)


#: Modules and their arguments: an input, and initial states if any.
CASES: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "lstm, two ways": lambda: (nn.LSTM(FEATURES, HIDDEN, bidirectional=True), (_padded(),)),
    "lstm of 3 layers, states": lambda: (
        nn.LSTM(FEATURES, HIDDEN, num_layers=3),
        (_padded(), (_state(3, BATCH), _state(3, BATCH))),
    ),
    "lstm, odd width, batch first, no bias": lambda: (
        nn.LSTM(FEATURES, 37, batch_first=True, bias=False),
        (_padded(7, 5, FEATURES), (_state(1, 7, hidden=37), _state(1, 7, hidden=37))),
    ),
    "lstm, no batch": lambda: (
        nn.LSTM(FEATURES, 16),
        (_padded(STEPS, FEATURES), (_state(1, hidden=16), _state(1, hidden=16))),
    ),
    "gru, two layers and ways": lambda: (
        nn.GRU(FEATURES, HIDDEN, num_layers=2, bidirectional=True, batch_first=True),
        (_padded(), _state(4, STEPS)),
    ),
    "gru, wide, no bias": lambda: (nn.GRU(FEATURES, 40, bias=False), (_padded(),)),
    "rnn, two ways": lambda: (
        nn.RNN(FEATURES, 19, bidirectional=True),
        (_padded(), _state(2, BATCH, hidden=19)),
    ),
    "relu, two layers": lambda: (
        nn.RNN(FEATURES, 33, num_layers=2, nonlinearity="relu"),
        (_padded(1, 9, FEATURES),),
    ),
}


def _cases() -> Iterator[Any]:
    """All of them; by default two on one driver, since each has a dozen kernels."""
    for number, case in enumerate(CASES):
        for n, driver in enumerate(two_drivers()):
            for profile in PROFILES:
                often = n == 0 and profile == "vector" and number in (0, 4)
                yield pytest.param(driver, profile, case, marks=() if often else pytest.mark.slow)


def _flat(x: Any) -> Tensors:
    return [x] if isinstance(x, torch.Tensor) else [t for y in x for t in _flat(y)]


def _as(dtype: torch.dtype, x: Any) -> Any:
    """Copies of tensors that want gradients."""
    if isinstance(x, torch.Tensor):
        return x.detach().to(dtype).requires_grad_()
    return tuple(_as(dtype, y) for y in x)


def _all(function: Any, module: nn.Module, given: tuple[Any, ...], dtype: torch.dtype) -> Tensors:
    """Results, and gradients of inputs, states and parameters."""
    given = _as(dtype, given)
    results = _flat(function(*given))
    loss = sum((r * torch.linspace(1, 2, r.numel()).to(dtype).view(r.shape)).sum() for r in results)
    assert isinstance(loss, torch.Tensor)
    gradients = torch.autograd.grad(loss, [*_flat(given), *module.parameters()])
    return [*(r.detach() for r in results), *gradients]


@pytest.mark.parametrize(("driver", "profile", "case"), _cases())
def test_results_and_gradients(driver: str, profile: str, case: str) -> None:
    module, given = CASES[case]()
    exact = copy.deepcopy(module).double()
    before, graphs = counters["opencl"]["fallbacks"], counters["opencl"]["graphs"]
    with poisoned_memory():
        function = compiled(module, driver, fallback="error", profile=profile)
        ours = _all(function, module, given, torch.float32)
    eager = _all(module, module, given, torch.float32)
    double = _all(exact, exact, given, torch.float64)
    for found, theirs, right in zip(ours, eager, double, strict=True):
        assert found.shape == theirs.shape and found.dtype == theirs.dtype
        assert found.stride() == theirs.stride()
        off, least = ((t.double() - right).abs().max() for t in (found, theirs))
        assert off <= 4 * least + 1e-6 * (1 + right.abs().max()), (off, least)
    assert counters["opencl"]["fallbacks"] == before
    assert counters["opencl"]["graphs"] == graphs + 2


@each_driver
def test_kernels_do_not_grow_with_steps(driver: str) -> None:
    counts = []
    for steps in (50, 150):
        torch._dynamo.reset()
        module = nn.LSTM(8, 16, num_layers=2)
        before = dict(counters["opencl"])
        x = torch.randn(steps, 8, 8, requires_grad=True)
        compiled(module, driver, fallback="error")(x)[0].sum().backward()
        counts.append(counters["opencl"]["kernels"] - before.get("kernels", 0))
    # A GPU sums a longer product in parts, which takes a few kernels more.
    assert max(counts) < 30


@each_driver
def test_without_gradients(driver: str) -> None:
    """Tables of gates are not written then."""
    module = nn.LSTM(FEATURES, 16, num_layers=2).eval()
    function = compiled(module, driver, fallback="error")
    for _ in range(2):
        x, h, c = torch.randn(6, 4, FEATURES), torch.randn(2, 4, 16), torch.randn(2, 4, 16)
        with torch.no_grad(), poisoned_memory():
            assert_same(_flat(function(x, (h, c))), _flat(module(x, (h, c))))


@pytest.mark.slow
@each_driver
def test_sizes_that_change(driver: str) -> None:
    module = nn.GRU(FEATURES, 16, bidirectional=True)
    function = compiled(module, driver, dynamic=True, fallback="error")
    for steps, batch in ((5, 3), (7, 4), (9, 6), (11, 2)):
        x = torch.randn(steps, batch, FEATURES)
        with poisoned_memory():
            found = _all(function, module, (x,), torch.float32)
        assert_same(found, _all(module, module, (x,), torch.float32))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes(dtype: torch.dtype) -> None:
    """Half types are rounded once a layer, where eager rounds at every step."""
    module = nn.LSTM(FEATURES, 16, num_layers=2).to(dtype)
    x = torch.randn(12, 4, FEATURES).to(dtype)
    with torch.no_grad():
        found, theirs = _flat(compiled(module, two_drivers()[0])(x)), _flat(module(x))
        exact = _flat(module.double()(x.double()))
    for a, b, right in zip(found, theirs, exact, strict=True):
        assert a.dtype is b.dtype is dtype
        off, least = ((t.double() - right).abs().max() for t in (a, b))
        # Of float64 eager is the reference itself: both round each of a dozen steps.
        roundings = 12 if dtype is torch.float64 else 1
        assert off <= 2 * least + roundings * torch.finfo(dtype).eps * right.abs().max()


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 16, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(ids))[0].relu())


@each_driver
def test_training(driver: str) -> None:
    start, losses = Tagger(), []
    ids, labels = torch.randint(20, (5, 7)), torch.randint(4, (35,))
    for wrap in (lambda m: compiled(m, driver, fallback="error"), lambda m: m):
        model = copy.deepcopy(start)
        function, optimiser = wrap(model), torch.optim.Adam(model.parameters(), lr=0.03)
        losses.append([])
        for _ in range(6):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(function(ids).flatten(0, 1), labels)
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < losses[0][0] - 0.1


def test_other_backends_break_the_graph_as_before() -> None:
    module, x = nn.LSTM(FEATURES, HIDDEN), torch.randn(STEPS, BATCH, FEATURES)
    compiled(module, two_drivers()[0])(x)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="RNN, GRU, or LSTM"):
        torch.compile(lambda x: module(x * 2)[0], backend="eager", fullgraph=True)(x)
    assert not torch._dynamo.config.allow_rnn


@pytest.mark.parametrize("how", ["projections", "packed", "autocast"])
def test_left_to_eager(how: str) -> None:
    module = nn.GRU(FEATURES, 8)
    if how == "projections":
        module = nn.LSTM(FEATURES, 8, proj_size=4)
    lengths = torch.tensor([STEPS, 3, 1])

    def model(x: torch.Tensor) -> torch.Tensor:
        y: Any = x * 2
        if how == "packed":
            y = nn.utils.rnn.pack_padded_sequence(y, lengths)
            return nn.utils.rnn.pad_packed_sequence(module(y)[0])[0] + 1
        with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
            return module(y)[0] + 1

    x = torch.randn(STEPS, BATCH, FEATURES)
    function = compiled(model, two_drivers()[0], fullgraph=False, fallback="error")
    with torch.no_grad():
        assert_same(function(x), model(x))


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


@pytest.mark.slow
@pytest.mark.parametrize("form", ["cells", "projections"])
@each_driver
def test_unrolled(driver: str, form: str) -> None:
    """What is a loop in Python, or becomes one where the user asks for it."""
    module = Cells() if form == "cells" else nn.LSTM(FEATURES, HIDDEN, proj_size=4)
    x = _padded(3, BATCH, FEATURES)
    with torch._dynamo.config.patch(allow_rnn=True), poisoned_memory():
        function = compiled(module, driver, fallback="error")
        found = _all(function, module, (x,), torch.float32)
    assert_same(found, _all(module, module, (x,), torch.float32))
