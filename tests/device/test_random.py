"""Compiled random operators: exact numbers where eager's are only alike in distribution.

Each call draws one seed from PyTorch's generator; from it the host's implementation of our
operators (tested in tests/null) gives the numbers that every driver and profile must give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, compiled, poisoned_memory, two_drivers
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.operators.random_numbers import ops

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SHAPES: tuple[tuple[int, ...], ...] = ((), (0, 3), (1,), (7,), (64,), (3, 1, 5), (31, 33), (20000,))


def draw(fn: Callable[..., Any], seed: int, *args: Any) -> Any:
    torch.manual_seed(seed)
    with poisoned_memory():
        return fn(*args)


def seed_of(seed: int) -> torch.Tensor:
    """What a call that follows ``torch.manual_seed(seed)`` draws."""
    torch.manual_seed(seed)
    return ops.draw_seed("forward")


def expected(seed: int, stream: int, size: Any, kind: str, dtype: Any = torch.float32) -> Any:
    return ops.random(seed_of(seed), stream, list(size), kind, dtype)


def fallbacks() -> int:
    return counters["opencl"]["fallbacks"]


# -- the numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_uniform_numbers_are_the_same_everywhere(device_name: str, profile: str) -> None:
    def fn() -> Any:
        return tuple(torch.rand(s, dtype=d) for s in SHAPES for d in DTYPES)

    results = draw(compiled(fn, device_name, profile=profile), 3)
    cases = [(s, d) for s in SHAPES for d in DTYPES]
    for stream, ((size, dtype), got) in enumerate(zip(cases, results, strict=True)):
        assert torch.equal(got, expected(3, stream, size, "uniform", dtype))


@pytest.mark.parametrize("profile", PROFILES)
def test_normal_numbers_are_the_same_up_to_rounding(device_name: str, profile: str) -> None:
    def fn() -> Any:
        return tuple(torch.randn(s, dtype=d) for s in SHAPES for d in DTYPES)

    results = draw(compiled(fn, device_name, profile=profile), 4)
    cases = [(s, d) for s in SHAPES for d in DTYPES]
    for stream, ((size, dtype), got) in enumerate(zip(cases, results, strict=True)):
        eps = torch.finfo(dtype).eps
        want = expected(4, stream, size, "normal", dtype)
        torch.testing.assert_close(got, want, rtol=8 * eps, atol=8 * eps)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
def test_integers_are_the_same_everywhere(driver: str, profile: str) -> None:
    bounds = [(0, 2), (-5, 9), (0, 2**31), (7, 2**40), (-(2**63), 2**63 - 1)]

    def fn() -> Any:
        return tuple(torch.randint(a, b, (1003,)) for a, b in bounds)

    results = draw(compiled(fn, driver, profile=profile), 5)
    for stream, ((low, high), got) in enumerate(zip(bounds, results, strict=True)):
        assert torch.equal(got, ops.random_integers(seed_of(5), stream, [1003], low, high))
    assert fallbacks() == 0


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
def test_views_and_orders_in_memory(driver: str, profile: str) -> None:
    """An element's number follows its coordinates, whatever the loop over them looks like."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        a = torch.rand(12, 35)
        b = torch.rand(12, 35)
        c = torch.rand_like(y)
        d = torch.rand(6, 7)
        e = torch.cat([d, d.flip(0) * 2], 1)
        return a.t() + x, b[2:, ::3].sum(1), c, e, torch.rand(5, 1) * x[:5]

    x = torch.zeros(35, 12)
    y = torch.empty(2, 8, 5, 5).to(memory_format=torch.channels_last)
    got = draw(compiled(fn, driver, profile=profile), 6, x, y)
    a, b = (expected(6, k, (12, 35), "uniform") for k in (0, 1))
    c, d = expected(6, 2, y.shape, "uniform"), expected(6, 3, (6, 7), "uniform")
    assert torch.equal(got[0], a.t())
    torch.testing.assert_close(got[1], b[2:, ::3].sum(1))
    assert torch.equal(got[2], c) and got[2].stride() == y.stride()
    assert torch.equal(got[3], torch.cat([d, d.flip(0) * 2], 1))
    assert torch.equal(got[4], torch.zeros(5, 12))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("columns", [1, 30, 64, 197])
def test_rows_that_are_swept_more_than_once(driver: str, profile: str, columns: int) -> None:
    """Sums, softmax and norms of random numbers use one set of them in all their sweeps."""

    def fn(x: torch.Tensor) -> Any:
        y = F.dropout(x, 0.25)
        return F.layer_norm(y, (columns,)), F.softmax(x + torch.rand_like(x), -1), y.sum(-1)

    x = torch.randn(13, columns, generator=torch.Generator().manual_seed(0))
    got = draw(compiled(fn, driver, profile=profile), 7, x)
    y = x * (expected(7, 0, x.shape, "uniform") >= 0.25) / 0.75
    noisy = x + expected(7, 1, x.shape, "uniform")
    want = (F.layer_norm(y, (columns,)), F.softmax(noisy, -1), y.sum(-1))
    torch.testing.assert_close(got, want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (16, 48), (33, 50)])
def test_epilogue_of_a_product(driver: str, profile: str, rows: int, columns: int) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.dropout(x @ w, 0.5).relu()

    g = torch.Generator().manual_seed(1)
    x, w = torch.randn(rows, 9, generator=g), torch.randn(9, columns, generator=g)
    got = draw(compiled(fn, driver, profile=profile), 8, x, w)
    mask = expected(8, 0, (rows, columns), "uniform") >= 0.5
    torch.testing.assert_close(got, (x @ w * mask * 2).relu(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("driver", two_drivers())
def test_discrete_memory(driver: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return F.dropout(x, 0.5), torch.rand(9)

    x = torch.ones(100)
    fns = [compiled(fn, driver, memory=memory) for memory in ("unified", "discrete")]
    a, b = (draw(f, 9, x) for f in fns)
    assert all(map(torch.equal, a, b))


# -- seeds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", two_drivers())
def test_seeds_repeat_and_calls_differ(driver: str) -> None:
    fn = compiled(lambda: (torch.rand(1000), torch.rand(1000), torch.randn(1000)), driver)
    first, again = draw(fn, 1), draw(fn, 1)
    second = fn()
    other = draw(fn, 2)
    assert all(map(torch.equal, first, again))
    sets = [*first, *second, *other]
    for i, a in enumerate(sets):
        for b in sets[:i]:
            assert (a == b).sum() < 5


@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_functions_that_are_alike_differ(driver: str) -> None:
    """Two compiled functions draw seeds of their own, as does eager code between them."""
    a, b = (compiled(lambda x: x + torch.rand(500), driver) for _ in range(2))
    torch.manual_seed(0)
    x = torch.zeros(500)
    first, between, second = a(x), torch.rand(500), b(x)
    torch.manual_seed(0)
    assert torch.equal(first, a(x)) and torch.equal(between, torch.rand(500))
    assert torch.equal(second, b(x)) and not torch.equal(first, second)


@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_parameters_alone_do_not_hoist_a_seed(driver: str) -> None:
    """What depends on parameters is computed once; random numbers of each call are not."""
    layer = nn.Linear(30, 30)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(layer.weight * 2, 0.5) @ x

    with torch.no_grad():
        f = compiled(fn, driver)
        x = torch.eye(30)
        a, b = f(x), f(x)
    assert not torch.equal(a, b)


@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_a_seed_is_not_a_fallback(driver: str) -> None:
    fn = compiled(lambda x: F.dropout(x, 0.5), driver, fallback="error")
    fn(torch.ones(5))
    assert fallbacks() == 0
    assert not [k for k in counters["opencl"] if k.startswith("fallback:")]


# -- distributions -----------------------------------------------------------------------------

COUNT = 40000


def _normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x)


#: name: (program over 40,000 elements, distribution function)
CONTINUOUS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[..., Any]]] = {
    "rand": (torch.rand_like, lambda x: x),
    "randn": (torch.randn_like, _normal_cdf),
    "uniform": (lambda x: x.clone().uniform_(-2, 3), lambda x: (x + 2) / 5),
    "normal": (lambda x: x.clone().normal_(1, 2), lambda x: _normal_cdf((x - 1) / 2)),
    "normal of tensors": (
        lambda x: torch.normal(x + 3, torch.ones_like(x) * 0.5),
        lambda x: _normal_cdf((x - 3) / 0.5),
    ),
    "normal of a mean": (lambda x: torch.normal(x - 1, 2.0), lambda x: _normal_cdf((x + 1) / 2)),
    "normal of a deviation": (
        lambda x: torch.normal(0.5, x + 2), lambda x: _normal_cdf((x - 0.5) / 2),
    ),
    "normal of numbers": (
        lambda x: torch.normal(0.5, 2.0, x.shape, dtype=x.dtype),
        lambda x: _normal_cdf((x - 0.5) / 2),
    ),
    "exponential": (lambda x: x.clone().exponential_(1.5), lambda x: 1 - torch.exp(-1.5 * x)),
    "log_normal": (
        lambda x: x.clone().log_normal_(0.5, 0.7),
        lambda x: _normal_cdf((x.log() - 0.5) / 0.7),
    ),
    "cauchy": (
        lambda x: x.clone().cauchy_(1, 2),
        lambda x: 0.5 + torch.atan((x - 1) / 2) / math.pi,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str, dtype: torch.dtype) -> None:
    """Kolmogorov and Smirnov's distance, and the correlation of neighbours."""
    driver = two_drivers()[0]
    fn, distribution = CONTINUOUS[name]
    before = fallbacks()
    x = draw(compiled(fn, driver), 11, torch.zeros(COUNT, dtype=dtype))
    assert fallbacks() == before and x.dtype is dtype and x.isfinite().all()
    u = distribution(x.double())
    ordered = u.sort().values
    steps = torch.arange(COUNT + 1) / COUNT
    distance = max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max())
    assert distance < 1.63 / math.sqrt(
        COUNT
    )  # exceeded by one sample in a hundred; seeds are fixed
    assert abs(torch.corrcoef(torch.stack([u[1:], u[:-1]]))[0, 1]) < 4 / math.sqrt(COUNT)
    assert abs(u.mean() - 0.5) < 4 * math.sqrt(1 / 12 / COUNT)


P = torch.tensor([0.0, 1.0, 0.25, 0.5, 1e-3])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("driver", two_drivers())
def test_bernoulli(driver: str, dtype: torch.dtype) -> None:
    p = P.to(dtype).repeat(COUNT // 5, 1)

    def fn(p: torch.Tensor) -> Any:
        z = torch.zeros_like(p)
        return torch.bernoulli(p), z.bernoulli(0.3), z.clone().bernoulli_(p[:1].double())

    for got, want in zip(draw(compiled(fn, driver), 12, p), (P, 0.3, P), strict=True):
        assert got.dtype is dtype and ((got == 0) | (got == 1)).all()
        mean, want = got.double().mean(0), torch.as_tensor(want, dtype=torch.float64).expand(5)
        assert ((mean - want).abs() <= 4 * (want * (1 - want) * 5 / COUNT).sqrt() + 1e-5).all()
    assert fallbacks() == 0


@pytest.mark.parametrize("driver", two_drivers())
def test_geometric(driver: str) -> None:
    fn = compiled(lambda x, n: (x.clone().geometric_(0.3), n.clone().geometric_(0.3)), driver)
    zeros = torch.zeros(COUNT)
    for got in draw(fn, 13, zeros, zeros.int()):
        counts = torch.bincount(got.long(), minlength=9)
        assert counts[0] == 0
        for k in range(1, 9):
            p = 0.3 * 0.7 ** (k - 1)
            assert abs(counts[k] / COUNT - p) < 4 * math.sqrt(p * (1 - p) / COUNT)


@pytest.mark.parametrize("driver", two_drivers())
def test_randint_is_even(driver: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return (
            torch.randint(7, (COUNT,)), torch.randint(-3, 4, (COUNT,), dtype=torch.int8),
            torch.randint_like(x, 7), torch.randint_like(x, 2, 9),
        )  # fmt: skip

    results = draw(compiled(fn, driver), 14, torch.zeros(COUNT))
    lows = (0, -3, 0, 2)
    dtypes = (torch.int64, torch.int8, torch.float32, torch.float32)
    for got, low, dtype in zip(results, lows, dtypes, strict=True):
        assert got.dtype is dtype
        counts = torch.bincount((got - low).long(), minlength=7)
        assert len(counts) == 7
        assert ((counts - COUNT / 7).abs() < 4 * math.sqrt(COUNT * 6 / 49)).all()


# -- permutations and samples of categories ---------------------------------------------------


@pytest.mark.parametrize("driver", two_drivers())
def test_permutations(driver: str) -> None:
    """Each of the 120 orders of five about equally often, and any length is complete."""

    def fn() -> Any:
        return [torch.randperm(n) for n in (0, 1, 5, 3000)] + [torch.randperm(9, dtype=torch.int8)]

    f = compiled(fn, driver, fallback="error")
    results = draw(f, 16)
    for got in results:
        assert torch.equal(got.sort().values.long(), torch.arange(len(got)))
    assert not torch.equal(results[3], torch.arange(3000))
    assert all(torch.equal(a, b) for a, b in zip(results, draw(f, 16), strict=True))

    def many() -> Any:
        return torch.stack([torch.randperm(5) for _ in range(16)])

    g, counts = compiled(many, driver, fallback="error"), torch.zeros(5, 5)
    torch.manual_seed(17)
    for _ in range(60):
        counts += torch.nn.functional.one_hot(g(), 5).sum(0)
    assert ((counts - 192).abs() < 4.5 * math.sqrt(960 * 4 / 25)).all()


WEIGHTS = torch.tensor([[0.0, 1.0, 2.0, 0.0, 5.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 3.0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("driver", two_drivers())
def test_samples_of_categories(driver: str, dtype: torch.dtype) -> None:
    """As often as their weights say, with replacement, one alone and all without replacement."""

    def fn(w: torch.Tensor) -> Any:
        many = w[:, None].expand(2, 2000, 6).reshape(-1, 6)
        return (
            torch.multinomial(w, 4000, replacement=True),
            torch.multinomial(many, 1).reshape(2, 2000),
            torch.multinomial(many, 2).reshape(2, 2000, 2),
        )

    repeated, single, pairs = draw(compiled(fn, driver, fallback="error"), 18, WEIGHTS.to(dtype))
    share = WEIGHTS / WEIGHTS.sum(1, keepdim=True)
    for got in (repeated, single, pairs[..., 0]):
        assert got.dtype is torch.int64
        found = torch.nn.functional.one_hot(got, 6).double().mean(1)
        bound = 4.5 * (share * (1 - share) / got.shape[1]).sqrt()
        assert ((found - share).abs() <= bound + 1e-9).all()
    assert (pairs[..., 0] != pairs[..., 1]).all()
    assert set(pairs[1].flatten().tolist()) == {0, 5}


@pytest.mark.parametrize("driver", two_drivers())
def test_rrelu(driver: str) -> None:
    """Slopes between the bounds, the gradient's the same as the result's."""
    f = compiled(lambda x: torch.nn.functional.rrelu(x, 0.2, 0.4, True), driver, fallback="error")
    torch.manual_seed(19)
    x = torch.randn(2000, requires_grad=True)
    y = f(x)
    y.sum().backward()
    slope = (y / x).detach()
    torch.testing.assert_close(slope, x.grad)
    below = slope[x < 0]
    assert (slope[x >= 0] == 1).all() and ((below >= 0.2 - 1e-6) & (below < 0.4 + 1e-6)).all()
    assert abs(below.mean() - 0.3) < 4 * 0.2 / math.sqrt(12 * len(below))


# -- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
def test_symbolic_sizes(driver: str, profile: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        n, m = x.shape
        return (
            torch.rand_like(x), F.dropout(x, 0.5), torch.randn(m, n), torch.randint(0, n, (m,)),
            torch.rand(2 * n, dtype=torch.float64),
        )  # fmt: skip

    f = compiled(fn, driver, dynamic=True, profile=profile)
    for n, m in ((5, 7), (16, 32), (33, 2), (129, 65)):
        got = draw(f, 15, torch.ones(n, m))
        key = seed_of(15)
        assert torch.equal(got[0], ops.random(key, 0, [n, m], "uniform", torch.float32))
        mask = ops.random(key, 1, [n, m], "uniform", torch.float32) >= 0.5
        assert torch.equal(got[1], mask * 2.0)
        want = ops.random(key, 2, [m, n], "normal", torch.float32)
        torch.testing.assert_close(got[2], want, rtol=1e-6, atol=1e-6)
        assert torch.equal(got[3], ops.random_integers(key, 3, [m], 0, n))
        assert torch.equal(got[4], ops.random(key, 4, [2 * n], "uniform", torch.float64))
    assert fallbacks() == 0
