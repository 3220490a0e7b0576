"""Parameters that change, inputs that are written, results that share memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import agree, assert_same, clone, compiled, poisoned_memory, random, two_drivers
from torch import nn
from torch._dynamo.utils import counters

each_driver = pytest.mark.parametrize("driver", two_drivers())


class Model(nn.Module):
    """Weights that are packed (linear, convolution), folded (batch norm) and read as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 19)
        self.register_buffer("scale", torch.rand(19) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.linear(x) * self.scale


def _model() -> Model:
    model = Model().eval()
    with torch.no_grad():
        for t in [*model.parameters(), model.norm.running_mean]:
            t.normal_()
        model.norm.running_var.uniform_(0.5, 2)
    return model


# -- parameters --------------------------------------------------------------------------------


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
    model = _model().requires_grad_(grad)
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
    model = _model()
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
        model = _model()
        function = compiled(model, two_drivers()[0])
        for _ in range(3):
            x = random(2, 3, 7, 5)
            torch.testing.assert_close(function(x), model(x), rtol=1e-4, atol=1e-4)
            model.linear.weight.mul_(2)
            model.conv.bias.add_(1)


@each_driver
def test_training_then_evaluation(driver: str) -> None:
    model = _model()
    function = compiled(model, driver)
    other = _model()
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


# -- inputs that are written -------------------------------------------------------------------


def _whole(x: Any, y: Any) -> Any:
    return x.add_(y), x * 2


def _part(x: Any, y: Any) -> Any:
    x[1:, ::2] = y[1:, ::2] * 3
    x[0].zero_()
    return x.sum(0)


def _through_a_view(x: Any, y: Any) -> Any:
    x.t()[1:3].add_(1)
    x.view(-1)[2:5].mul_(y.sum())
    return x + y


def _swapped(x: Any, y: Any) -> Any:
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return t


def _returned(x: Any, y: Any) -> Any:
    x.mul_(2)
    return x, x.view(-1), x[1:], y, y.t()


def _only_written(x: Any, y: Any) -> None:
    x.copy_(y.relu())


def _by_index(x: Any, y: Any) -> Any:
    x.index_add_(0, torch.tensor([1, 3, 1]), y[:3])
    x.masked_fill_(y > 0.5, -1)
    x[torch.tensor([0, 2])] = y[:2]
    return x.sum(1)


MUTATIONS = [_whole, _part, _through_a_view, _swapped, _returned, _only_written, _by_index]


@pytest.mark.parametrize("layout", ["plain", "transposed", "offset"])
@pytest.mark.parametrize("fn", MUTATIONS, ids=lambda f: f.__name__[1:])
@each_driver
def test_written_inputs(fn: Callable[..., Any], layout: str, driver: str) -> None:
    x = random(5, 7)
    if layout == "transposed":
        if fn is _through_a_view:
            pytest.skip("no flat view of it")
        x = random(7, 5).t()
        if fn is _returned:
            fn = _whole
    elif layout == "offset":
        x = random(36)[1:].view(5, 7)
    agree(fn, x, random(5, 7), device=driver)


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_inputs_that_overlap(driver: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    for first, second in ((slice(0, 5), slice(3, 8)), (slice(0, 5), slice(0, 5))):
        # Dynamo does not guard on how inputs overlap, so each way is compiled afresh.
        torch.compiler.reset()
        storage = random(12)
        ours, theirs = storage.clone(), storage.clone()
        function = compiled(fn, driver)
        actual = function(ours[first], ours[second])
        torch.testing.assert_close(actual, fn(theirs[first], theirs[second]))
        torch.testing.assert_close(ours, theirs)


@each_driver
def test_written_buffers(driver: str) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mean", torch.zeros(7))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps.add_(1)
            self.mean.lerp_(x.mean(0), 0.1)
            return (x - self.mean) / self.steps

    model, other = Counter(), Counter()
    function = compiled(model, driver)
    for _ in range(4):
        x = random(5, 7)
        torch.testing.assert_close(function(x), other(x))
        torch.testing.assert_close(model.mean, other.mean)
    assert model.steps == 4


# -- results that share memory -----------------------------------------------------------------


ALIASES = {
    "input": lambda x: (x, x * 2),
    "view of input": lambda x: (x.view(-1), x.t(), x[1:, ::2], x + 1),
    "same result twice": lambda x: ((y := x + 1), y),
    "views of a result": lambda x: ((y := x + 1), y.view(-1), y[1:], y.t()),
    "only views of a result": lambda x: ((y := x + 1)[:2], y[1:, 2:]),
    "expanded": lambda x: (x.sum(0, keepdim=True).expand(5, -1), x[:1].expand(3, -1)),
    "detached": lambda x: (x.detach(), (x + 1).detach()),
    "gap": lambda x: ((x + 1)[::2], (x * 2).select(1, 3), x.sum(0)[::3]),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ALIASES)
@each_driver
def test_results_alias_as_in_eager(name: str, dynamic: bool, driver: str) -> None:
    fn = ALIASES[name]
    x = random(5, 7)
    function = compiled(fn, driver, dynamic=dynamic)
    agree(fn, x, device=driver, compiled_fn=function)
    ours, theirs = clone((x,)), clone((x,))
    actual, expected = function(*ours), fn(*theirs)
    for position in range(len(expected)):
        if any(s == 0 for s in expected[position].stride()):
            continue
        for results in (actual, expected):
            with torch.no_grad():
                results[position].add_(3)
        assert_same(actual, expected)
        assert_same(ours, theirs)


@each_driver
def test_results_of_one_call_survive_the_next(driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.softmax(-1), x.sum(0), torch.linalg.svdvals(x) if False else x.exp()

    function = compiled(fn, driver)
    inputs = [random(9, 7) for _ in range(4)]
    kept = [function(x) for x in inputs]
    for x, results in zip(inputs, kept, strict=True):
        assert_same(results, fn(x))


@each_driver
def test_results_survive_their_inputs(driver: str) -> None:
    function = compiled(lambda x: (x * 2, x.view(-1)[1:]), driver)
    kept = []
    for n in range(20):
        kept.append(function(torch.full((999,), float(n))))
    for n, (double, view) in enumerate(kept):
        assert (double == 2 * n).all()
        assert (view == n).all()


@each_driver
def test_gradients_of_inputs_and_parameters(driver: str) -> None:
    model = _model()

    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x).log_softmax(-1)[:, 3].mean()

    function = compiled(step, driver)
    x = random(2, 3, 7, 5).requires_grad_()
    with poisoned_memory():
        actual = torch.autograd.grad(function(x), [x, *model.parameters()])
    expected = torch.autograd.grad(step(x), [x, *model.parameters()])
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


# -- threads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["unified", "discrete"])
@each_driver
def test_threads_share_a_function(memory: str, driver: str) -> None:
    model = _model().requires_grad_(False)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return model(x).softmax(-1)

    function = compiled(fn, driver, memory=memory)
    inputs = [random(2, 3, 7, 5) for _ in range(8)]
    function(inputs[0])
    expected = [fn(x) for x in inputs]
    failures: list[BaseException] = []

    def work(offset: int) -> None:
        try:
            for n in range(24):
                k = (n + offset) % len(inputs)
                torch.testing.assert_close(function(inputs[k]), expected[k], rtol=1e-4, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


@each_driver
def test_threads_with_functions_of_their_own(driver: str) -> None:
    """Kernels of different plans share a queue."""
    functions = [
        (lambda x: x.softmax(-1) * 2, (9, 65)),
        (lambda x: x @ x.t(), (17, 33)),
        (lambda x: x.cumsum(0).sum(1), (33, 9)),
    ]
    ready = []
    for fn, size in functions:
        x = random(*size)
        function = compiled(fn, driver)
        function(x)
        ready.append((function, x, fn(x)))
    failures: list[BaseException] = []

    def work(function: Any, x: torch.Tensor, expected: torch.Tensor) -> None:
        try:
            for _ in range(24):
                torch.testing.assert_close(function(x), expected, rtol=1e-4, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=item) for item in ready]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def test_counters_count_calls() -> None:
    function = compiled(lambda x: x.softmax(-1), two_drivers()[0])
    function(random(3, 5))
    table = counters["opencl"]
    assert table["graphs"] == 1
    assert table["kernels"] == 1
    assert table["fallbacks"] == 0
