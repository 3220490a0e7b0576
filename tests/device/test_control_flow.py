"""cond, while_loop, scan, map and associative_scan: their bodies run as kernels of ours."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from abilities import where_pytorch_can
from agreement import assert_same, compiled, poisoned_memory, random, two_drivers
from torch import nn
from torch._dynamo.utils import counters
from torch._higher_order_ops import map as hop_map
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

# What a driver does differs in kernels, hardly in control flow.
both_drivers = pytest.mark.parametrize("driver", two_drivers())
each_driver = pytest.mark.parametrize(
    "driver",
    [pytest.param(d, marks=[pytest.mark.slow] * (n > 0)) for n, d in enumerate(two_drivers())],
)
each_memory = pytest.mark.parametrize(
    "memory", ["unified", pytest.param("discrete", marks=pytest.mark.slow)]
)


def same(actual: Any, expected: Any) -> None:
    assert_same(actual, expected, 1e-5, 1e-5)


def no_fallback() -> None:
    assert counters["opencl"]["fallbacks"] == 0
    assert counters["opencl"]["kernels"] > 0


def gradients(fn: Any, *tensors: torch.Tensor) -> Any:
    with poisoned_memory():
        return torch.autograd.grad(fn(), tensors, allow_unused=True)


@both_drivers
@each_memory
def test_cond(driver: str, memory: str) -> None:
    def inner(x: Any) -> Any:
        return torch.cond(x.max() > 0.9, lambda x: x * 10, lambda x: x.softmax(0), (x,))

    def fn(x: Any) -> Any:
        y, z = torch.cond(
            x.sum() > 0, lambda x: (inner(x) + 1, x.sum(0)), lambda x: (x.cos() - 1, x[0] * 2), (x,)
        )
        return y @ x.t(), z

    function = compiled(fn, driver, memory=memory)
    for scale in (1, -1, 0.5, -0.5):
        x = torch.rand(5, 7) * scale
        with poisoned_memory():
            same(function(x), fn(x))
    no_fallback()


@each_driver
def test_cond_with_parameters_and_gradients(driver: str) -> None:
    yes, no = nn.Linear(7, 7), nn.Linear(7, 7)

    def fn(x: Any) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: yes(x).relu(), lambda x: no(x).sigmoid(), (x,))
        return y.square().sum()

    function = compiled(fn, driver)
    for scale in (1, -1, 1):
        x = (torch.rand(5, 7) * scale).requires_grad_()
        same(function(x).detach(), fn(x).detach())
        of = (x, *yes.parameters(), *no.parameters())
        actual, expected = gradients(lambda: function(x), *of), gradients(lambda: fn(x), *of)  # noqa: B023
        for a, e, p in zip(actual, expected, of, strict=True):
            # The branch that was not taken: zeros here, nothing in eager.
            same(torch.zeros_like(p) if a is None else a, torch.zeros_like(p) if e is None else e)
    no_fallback()


@each_driver
def test_cond_on_sizes(driver: str) -> None:
    def fn(x: Any) -> Any:
        y = torch.cond(x.shape[0] > 4, lambda x: x.sin() * 2, lambda x: x.cos() - 1, (x,))
        return torch.cond(y.sum() > 0, lambda x: x + x.shape[0], lambda x: x.flip(0), (y,))

    function = compiled(fn, driver, dynamic=True)
    for n in (3, 5, 17, 2):
        x = random(n, 7)
        same(function(x), fn(x))
    assert counters["opencl"]["graphs"] == 1
    no_fallback()


@both_drivers
@each_memory
def test_while_loop(driver: str, memory: str) -> None:
    linear = nn.Linear(7, 7).requires_grad_(False)

    def step(i: Any, x: Any) -> Any:
        return i + 1, (linear(x) + x.t().sum()).softmax(-1)

    def fn(i: Any, x: Any) -> Any:
        return while_loop(lambda i, x: (i < 6) & (x.norm() > 0.01), step, (i, x))

    def eager(i: Any, x: Any) -> Any:
        while i < 6 and x.norm() > 0.01:
            i, x = step(i, x)
        return i, x.clone()

    function = compiled(fn, driver, memory=memory)
    for n in (0, 4, 6):
        i, x = torch.tensor(n), random(5, 7)
        with poisoned_memory():
            actual = function(i, x)
        for a, e in zip(actual, eager(i, x), strict=True):
            torch.testing.assert_close(a, e)
        linear.weight.mul_(-0.7)  # packed for the kernels of the body
    no_fallback()


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_while_loop_with_numbers(driver: str) -> None:
    def fn(x: Any) -> Any:
        n, y = while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x + x.sin()), (0, x))
        return n, y, x * n  # the last one on the host: nothing orders kernels by numbers

    function = compiled(fn, driver)
    for n in (3, 5, 8):
        x = random(n, 7)
        same(function(x), fn(x))


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_while_loop_gradients(driver: str) -> None:
    def fn(i: Any, x: Any) -> Any:
        step = lambda i, x: (i + 1, (x * 1.1 + 0.1).sin())  # noqa: E731
        return while_loop(lambda i, x: i < 4, step, (i, x))[1].sum()

    function = compiled(fn, driver)
    for n in (0, 3):
        x, i = random(5, 7).requires_grad_(), torch.tensor(n)
        y = x
        for _ in range(n, 4):
            y = (y * 1.1 + 0.1).sin()
        same(gradients(lambda: function(i, x), x), gradients(y.sum, x))  # noqa: B023


@each_driver
def test_scan(driver: str) -> None:
    linear = nn.Linear(7, 7)

    def fn(carry: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            carry = (linear(carry) * 0.5 + x).tanh()
            return carry, carry * 2

        return scan(step, carry, xs)

    def eager(carry: Any, xs: Any) -> Any:
        rows = []
        for x in xs:
            carry = (linear(carry) * 0.5 + x).tanh()
            rows.append(carry * 2)
        return carry, torch.stack(rows)

    function = compiled(fn, driver)
    carry, xs = random(7).requires_grad_(), random(6, 7).requires_grad_()
    of = (carry, xs, *linear.parameters())
    with poisoned_memory():
        same([x.detach() for x in function(carry, xs)], [x.detach() for x in eager(carry, xs)])
    actual, expected = (
        gradients(lambda f=f: sum(x.square().sum() for x in f(carry, xs)), *of)  # type: ignore[misc]
        for f in (function, eager)
    )
    same(actual, expected)
    no_fallback()


@each_driver
def test_map(driver: str) -> None:
    def fn(xs: Any, y: Any) -> Any:
        return hop_map(lambda x, y: (x @ y).softmax(-1), xs, y)

    function = compiled(fn, driver)
    xs, y = random(6, 5, 7).requires_grad_(), random(7, 3).requires_grad_()
    same(function(xs, y).detach(), (xs @ y).softmax(-1).detach())
    actual = gradients(lambda: function(xs, y).square().sum(), xs, y)
    same(actual, gradients(lambda: (xs @ y).softmax(-1).square().sum(), xs, y))
    no_fallback()


@pytest.mark.slow
@each_driver
def test_associative_scan(driver: str) -> None:
    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    def fn(x: Any, y: Any) -> Any:
        return associative_scan(combine, (x, y), 0, combine_mode="generic")

    x, y = random(9, 5), random(9, 5)
    rows = [(x[0], y[0])]
    for n in range(1, 9):
        rows.append(combine(rows[-1], (x[n], y[n])))
    expected = tuple(torch.stack(column) for column in zip(*rows, strict=True))
    same(compiled(fn, driver)(x, y), expected)
    no_fallback()


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_sizes_and_numbers_that_the_data_decide(driver: str) -> None:
    def fn(x: Any) -> Any:
        where = x.nonzero()
        return x + x.abs().argmax().item(), where * 2, (x[x > 0] * 2).sum(), x.softmax(0)

    names = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
    with torch._dynamo.config.patch(dict.fromkeys(names, True)):
        function = compiled(fn, driver)
        for _ in range(3):
            x = random(9).relu()
            with poisoned_memory():
                same(function(x), fn(x))


class Counting(nn.Module):
    """A loop that writes a buffer of the module, and reads what the last round has written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.full((5,), 0.5))

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        def step(i: Any, y: Any) -> Any:
            self.seen.add_(y * other)
            return i + 1, (y + self.seen).sin()

        return while_loop(lambda i, y: i < 4, step, (torch.tensor(0), x))[1] + self.seen


@both_drivers
@each_memory
def test_loop_bodies_that_write_what_they_captured(driver: str, memory: str) -> None:
    ours, eager = Counting(), Counting()
    function = compiled(ours, driver, memory=memory, fallback="error")
    with torch.no_grad():
        for seed in range(3):
            x, other = random(5, seed=seed), random(5, seed=seed + 7)
            with where_pytorch_can(ours, x, other), poisoned_memory():
                actual = function(x, other)
            same(actual, eager(x, other))
            same(ours.seen, eager.seen)
    no_fallback()


@both_drivers
def test_branches_that_write_what_they_captured(driver: str) -> None:
    def fn(x: Any, first: Any, second: Any) -> Any:
        def yes(x: Any) -> Any:
            second.mul_(x)
            first.add_(second)
            return x * 2

        return torch.cond(x.sum() > 0, yes, lambda x: x + first, (x,)), first + second

    function = compiled(fn, driver, fallback="error")
    for scale in (1, -1):
        x = torch.rand(5) * scale
        ours, theirs = ([random(5, seed=n) for n in range(2)] for _ in range(2))
        with torch.no_grad():
            with where_pytorch_can(fn, x, *ours), poisoned_memory():
                actual = function(x, *ours)
            same(actual, fn(x, *theirs))
        same(ours, theirs)
    no_fallback()


#: Parts of a tensor of four rows of five: told as a slice, and by strides.
PARTS: dict[str, Any] = {
    "rows": lambda x: x[1:3],
    "a row": lambda x: x[1],
    "columns": lambda x: x[:, 2:4],
    "transposed": lambda x: x.t(),
    "every second": lambda x: x[:, ::2],
}


@pytest.mark.parametrize("whole", ["an argument", "computed"])
@pytest.mark.parametrize("part", PARTS)
@both_drivers
def test_bodies_that_write_a_part(part: str, whole: str, driver: str) -> None:
    """A loop and a branch; what lies around the part stays, and all of it is read afterwards."""

    def loop(x: Any, base: Any) -> Any:
        base = base if whole == "an argument" else base * 2
        y = PARTS[part](base)

        def step(i: Any, a: Any) -> Any:
            y.add_(a.sum() / 7)
            return i + 1, a * 0.5 + y.sum() / 50

        return (*while_loop(lambda i, a: i < 3, step, (torch.tensor(0), x)), base * 3)

    def branch(x: Any, base: Any) -> Any:
        base = base if whole == "an argument" else base * 2
        y = PARTS[part](base)

        def yes(x: Any) -> Any:
            y.add_(x.sum())
            return x * 2

        return torch.cond(x.sum() > 0, yes, lambda x: x + y.sum(), (x,)), base * 3

    # A view of an argument by strides is found by the host, which knows where that lies.
    native = whole == "computed" or part in ("rows", "columns")
    for fn in (loop, branch):
        torch.compiler.reset()
        function = compiled(fn, driver, fallback="error")
        for seed, scale in ((0, 1), (1, -1)):
            x = torch.rand(5) * scale
            ours, eager = (random(4, 5, seed=seed) for _ in range(2))
            with torch.no_grad():
                with where_pytorch_can(fn, x, ours), poisoned_memory():
                    actual = function(x, ours)
                same(actual, fn(x, eager))
            same(ours, eager)
        if native:
            no_fallback()
