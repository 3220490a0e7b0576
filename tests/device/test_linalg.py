"""Factorisations of small matrices and solutions with them, in kernels, with their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from agreement import PROFILES, compiled, poisoned_memory, two_drivers
from torch import Tensor, linalg
from torch._dynamo.utils import counters

each_driver = pytest.mark.parametrize("driver", two_drivers())
each_profile = pytest.mark.parametrize("profile", PROFILES)


@dataclass(frozen=True)
class Problem:
    """``run(a, s, b)``: of well-conditioned matrices ``a``, positive ones ``s``, right sides ``b``.

    ``trained``: it has gradients in eager.
    """

    run: Callable[[Tensor, Tensor, Tensor], Any]
    trained: bool = True


def _triangular(a: Tensor, s: Tensor, b: Tensor) -> list[Tensor]:
    return [
        linalg.solve_triangular(a, b if left else b.mT, upper=upper, left=left, unitriangular=unit)
        for upper, left, unit in itertools.product((False, True), repeat=3)
    ]


def _with_lu(a: Tensor, s: Tensor, b: Tensor) -> list[Tensor]:
    lu, pivots = linalg.lu_factor(a)
    return [
        linalg.lu_solve(lu, pivots, b if left else b.mT, left=left, adjoint=adjoint)
        for left, adjoint in itertools.product((False, True), repeat=2)
    ]


PROBLEMS = {
    "inv": Problem(lambda a, s, b: linalg.inv(a)),
    "det": Problem(lambda a, s, b: linalg.det(a)),
    "det, strided": Problem(lambda a, s, b: linalg.det(a.mT * 1.0)),
    "slogdet": Problem(lambda a, s, b: linalg.slogdet(a)),
    "solve": Problem(lambda a, s, b: linalg.solve(a, b)),
    "solve on the right": Problem(lambda a, s, b: linalg.solve(a, b.mT, left=False)),
    "solve, vectors": Problem(lambda a, s, b: linalg.solve(a, b[..., 0])),
    "solve, one side for all": Problem(lambda a, s, b: linalg.solve(a, b[0])),
    "solve, one matrix for all": Problem(lambda a, s, b: linalg.solve(a[0], b)),
    "cholesky": Problem(lambda a, s, b: linalg.cholesky(s)),
    "cholesky, upper": Problem(lambda a, s, b: linalg.cholesky(s, upper=True)),
    "cholesky, the older one": Problem(lambda a, s, b: torch.cholesky(s, upper=True)),
    "cholesky_solve": Problem(lambda a, s, b: torch.cholesky_solve(b, linalg.cholesky(s))),
    "cholesky_solve, upper": Problem(
        lambda a, s, b: torch.cholesky_solve(b, linalg.cholesky(s, upper=True), upper=True)
    ),
    "cholesky_inverse": Problem(lambda a, s, b: torch.cholesky_inverse(linalg.cholesky(s))),
    "triangular_solve": Problem(
        lambda a, s, b: torch.triangular_solve(b, a, upper=False, transpose=True).solution
    ),
    "qr": Problem(lambda a, s, b: linalg.qr(a)),
    "qr, tall": Problem(lambda a, s, b: linalg.qr(b)),
    "qr, wide": Problem(lambda a, s, b: linalg.qr(b.mT), trained=False),
    "qr, complete": Problem(lambda a, s, b: linalg.qr(b, mode="complete"), trained=False),
    "lu": Problem(lambda a, s, b: linalg.lu(a)),
    "lu, tall": Problem(lambda a, s, b: linalg.lu(b), trained=False),
    "lu, wide": Problem(lambda a, s, b: linalg.lu(b.mT), trained=False),
    "lu_factor": Problem(lambda a, s, b: linalg.lu_factor(a), trained=False),
    "lu_factor, tall": Problem(lambda a, s, b: linalg.lu_factor(b), trained=False),
    "lu_unpack": Problem(lambda a, s, b: torch.lu_unpack(*linalg.lu_factor(b)), trained=False),
    "matrix_power": Problem(lambda a, s, b: linalg.matrix_power(a, -2)),
    "solve_triangular": Problem(_triangular),
    "lu_solve": Problem(_with_lu),
}


def _matrices(batch: int, n: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """``a``, ``s`` and ``b``; the diagonal of ``a`` is no pivot of each step."""
    a = torch.randn(batch, n, n, dtype=dtype) * (0.5 / n**0.5) + torch.eye(n, dtype=dtype)
    a = a[:, torch.randperm(n)] if n > 2 else a
    half = torch.randn(batch, n, n, dtype=dtype) / n**0.5
    s = half @ half.mT + 0.5 * torch.eye(n, dtype=dtype)
    return a, s, torch.randn(batch, n, max(n // 2, 1), dtype=dtype)


def _flat(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _results(run: Callable[..., Any], given: tuple[Tensor, ...], trained: bool) -> list[Tensor]:
    """What ``run`` gives, and gradients of its arguments for weights that are always the same."""
    arguments = tuple(t.detach().clone().requires_grad_(trained) for t in given)
    results = _flat(run(*arguments))
    if not trained:
        return results
    generator = torch.Generator().manual_seed(3)
    weighted = [
        (r * torch.randn(r.shape, dtype=torch.float64, generator=generator).to(r.dtype)).sum()
        for r in results
        if r.requires_grad
    ]
    gradients = torch.autograd.grad(sum(weighted), arguments, allow_unused=True)
    return [r.detach() for r in results] + [g for g in gradients if g is not None]


def _check(ours: Any, eager: Any, given: tuple[Tensor, ...], trained: bool = True) -> None:
    """As near to float64 as eager is, give or take, with its dtypes, sizes and strides."""
    found, wanted = (_results(f, given, trained) for f in (ours, eager))
    exact = _results(eager, tuple(t.double() for t in given), trained)
    for mine, its, right in zip(found, wanted, exact, strict=True):
        assert (mine.dtype, mine.shape, mine.stride()) == (its.dtype, its.shape, its.stride())
        if not its.dtype.is_floating_point:
            assert torch.equal(mine, its)
            continue
        if not its.numel():
            continue
        near = 10 * torch.finfo(its.dtype).eps * (1 + right.abs().max())
        allowed = 10 * (its.double() - right).abs().max() + near
        assert (mine.double() - right).abs().max() <= allowed


@each_driver
@each_profile
@pytest.mark.parametrize("name", PROBLEMS)
def test_small_matrices(driver: str, profile: str, name: str) -> None:
    """Three matrices of 5 rows: less than lanes, each with pivots of its own."""
    problem = PROBLEMS[name]
    ours = compiled(problem.run, driver, profile=profile, fallback="error")
    with poisoned_memory():
        _check(ours, problem.run, _matrices(3, 5), problem.trained)


@each_driver
@each_profile
@pytest.mark.parametrize("n", [40, 100])
def test_triangular_systems_in_blocks(driver: str, profile: str, n: int) -> None:
    """Of more rows than one kernel takes."""
    upper = PROBLEMS["triangular_solve"].run

    def run(a: Tensor, s: Tensor, b: Tensor) -> list[Tensor]:
        return [
            *_triangular(a, s, b),
            upper(a, s, b),
            torch.cholesky_solve(b, a.tril()),
            linalg.solve_triangular(a[:1], b, upper=False),
        ]

    a = torch.randn(3, n, n) * 0.3 / n**0.5 + torch.eye(n)
    given = a, torch.zeros(1), torch.randn(3, n, 5)
    ours = compiled(run, driver, profile=profile, fallback="error")
    _check(lambda a, b: ours(a, given[1], b), lambda a, b: run(a, given[1], b), (a, given[2]))


@each_driver
@each_profile
@pytest.mark.parametrize("n", (1, 2, 4, 9, 16, 32))
def test_sizes(driver: str, profile: str, n: int) -> None:
    def eager(a: Tensor, s: Tensor, b: Tensor) -> Any:
        x, chol, (q, r) = linalg.solve(a, b), linalg.cholesky(s), linalg.qr(b)
        return x, chol, q, r, linalg.inv(a), linalg.det(a)

    ours = compiled(eager, driver, profile=profile, fallback="error")
    _check(ours, eager, _matrices(37, n), trained=False)


@pytest.mark.parametrize("name", ("inv", "cholesky", "qr", "slogdet"))
def test_every_driver(device_name: str, name: str) -> None:
    """Several leading dimensions, other strides, float64."""
    run = PROBLEMS[name].run
    given = _matrices(12, 6, torch.float64)
    shaped = tuple(t.mT.contiguous().mT.unflatten(0, (3, 4)) for t in given)
    ours = compiled(run, device_name, fallback="error")
    _check(ours, run, shaped, trained=True)


@each_driver
def test_kernels(driver: str) -> None:
    """An inverse is one kernel, or three where the batch may be of any size: LU, inverse, info."""
    ours = compiled(linalg.inv, driver, fallback="error", dynamic=None)
    for batch in (8, 3, 21):
        (a, _, _) = _matrices(batch, 4)
        _check(ours, linalg.inv, (a,), trained=False)
    assert counters["stats"]["unique_graphs"] == 2
    assert counters["opencl"]["kernels"] == 1 + 3


@each_driver
@pytest.mark.parametrize("function", (linalg.inv, linalg.cholesky, linalg.lu_factor))
def test_errors_are_those_of_eager(driver: str, function: Callable[..., Any]) -> None:
    """A matrix that has no such result is named; the next call works."""
    ours = compiled(function, driver, fallback="error")
    good = torch.eye(3).expand(4, 3, 3) * torch.rand(4, 1, 1).add(0.5)
    bad = good.clone()
    bad[2] = -torch.ones(3, 3)
    with pytest.raises(RuntimeError) as eager:
        function(bad)
    with pytest.raises(type(eager.value)) as found:
        ours(bad)
    assert str(eager.value) in str(found.value)
    torch.testing.assert_close(ours(good), function(good))


@each_driver
def test_info(driver: str) -> None:
    """Without a check, info says which step failed, for each matrix."""

    def eager(a: Tensor) -> Any:
        return linalg.cholesky_ex(a).info, linalg.inv_ex(a).info, linalg.lu_factor_ex(a).info

    a = torch.stack(
        [torch.eye(3), torch.diag(torch.tensor([1.0, -1, 0])), torch.ones(3, 3), torch.zeros(3, 3)]
    )
    found = compiled(eager, driver, fallback="error")(a)
    for mine, its in zip(found, eager(a), strict=True):
        assert torch.equal(mine, its)


@each_driver
def test_without_elements(driver: str) -> None:
    def eager(none: Tensor, zero: Tensor, b: Tensor) -> Any:
        found = [linalg.det(none), linalg.det(zero), *linalg.slogdet(zero), *linalg.qr(zero)]
        found += [linalg.inv(none), linalg.inv(zero), linalg.cholesky(zero), *linalg.lu(none)]
        found += [
            linalg.solve(torch.eye(4, dtype=b.dtype), b),
            linalg.solve_triangular(zero, zero, upper=True),
        ]
        return [*found, *linalg.lu_factor(zero)]

    given = torch.randn(0, 3, 3), torch.randn(2, 0, 0), torch.randn(2, 4, 0)
    _check(compiled(eager, driver, fallback="error"), eager, given, trained=False)


@each_driver
def test_large_ones_stay_on_the_host(driver: str) -> None:
    a, _, _ = _matrices(2, 33)
    counters.clear()
    _check(compiled(linalg.inv, driver), linalg.inv, (a,), trained=False)
    assert counters["opencl"]["fallbacks"] == 1


@each_driver
def test_a_normal_distribution(driver: str) -> None:
    """What statistics are made of: a covariance's factor, a triangular system, a determinant."""

    def eager(s: Tensor, mean: Tensor, x: Tensor) -> Tensor:
        normal = torch.distributions.MultivariateNormal(
            mean, covariance_matrix=s, validate_args=False
        )
        return normal.log_prob(x)

    _, s, _ = _matrices(6, 4)
    given = (s, torch.randn(6, 4), torch.randn(6, 4))
    _check(compiled(eager, driver, fallback="error"), eager, given)
