"""Special functions on the device: many in one graph, beside eager and double precision."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import pytest
import torch
from agreement import agree, compiled, two_drivers

Function = Callable[..., torch.Tensor]
aten = torch.ops.aten

#: Names are those of primitives: test_every_primitive_has_a_test looks for them here.
UNARY: dict[str, Function] = {
    "airy_ai": aten.special_airy_ai,
    "bessel_j0": aten.special_bessel_j0,
    "bessel_j1": aten.special_bessel_j1,
    "bessel_y0": aten.special_bessel_y0,
    "bessel_y1": aten.special_bessel_y1,
    "erfcx": aten.special_erfcx,
    "modified_bessel_k0": aten.special_modified_bessel_k0,
    "modified_bessel_k1": aten.special_modified_bessel_k1,
    "ndtri": aten.special_ndtri,
    "scaled_modified_bessel_k0": aten.special_scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": aten.special_scaled_modified_bessel_k1,
    "spherical_bessel_j0": aten.special_spherical_bessel_j0,
    "trigamma": lambda x: torch.polygamma(1, x),
    "polygamma": lambda x: torch.polygamma(3, x),
    "log_ndtr": torch.special.log_ndtr,
}
POLYNOMIALS: dict[str, Function] = {
    "chebyshev_polynomial_t": aten.special_chebyshev_polynomial_t,
    "chebyshev_polynomial_u": aten.special_chebyshev_polynomial_u,
    "chebyshev_polynomial_v": aten.special_chebyshev_polynomial_v,
    "chebyshev_polynomial_w": aten.special_chebyshev_polynomial_w,
    "shifted_chebyshev_polynomial_t": aten.special_shifted_chebyshev_polynomial_t,
    "shifted_chebyshev_polynomial_u": aten.special_shifted_chebyshev_polynomial_u,
    "shifted_chebyshev_polynomial_v": aten.special_shifted_chebyshev_polynomial_v,
    "shifted_chebyshev_polynomial_w": aten.special_shifted_chebyshev_polynomial_w,
    "hermite_polynomial_h": aten.special_hermite_polynomial_h,
    "hermite_polynomial_he": aten.special_hermite_polynomial_he,
    "laguerre_polynomial_l": aten.special_laguerre_polynomial_l,
    "legendre_polynomial_p": aten.special_legendre_polynomial_p,
}
GAMMA: dict[str, Function] = {
    "zeta": torch.special.zeta,
    "igamma": torch.igamma,
    "igammac": torch.igammac,
}
COUNT = 1000
#: The second profile evaluates the same text with scalars.
SLOW_PROFILES = ["vector", pytest.param("simt", marks=pytest.mark.slow)]
EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 5.0, -5.0, 8.0, 1e-30, 1e-6, 3.0, -3.0, 50.0,
    100.0, -30.0, 1e4, math.inf, -math.inf, math.nan,
]  # fmt: skip


def edge_pairs(second: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = torch.tensor(EDGES, dtype=torch.float64), torch.tensor(second, dtype=torch.float64)
    return a.repeat(len(b)), b.repeat_interleave(len(a))


def spread(low: float, high: float) -> torch.Tensor:
    return torch.rand(COUNT, dtype=torch.float64) * (high - low) + low


def arguments(names: dict[str, Function]) -> tuple[torch.Tensor, ...]:
    """Ordinary arguments and, at the end, every pair of edges; in float64."""
    edges = torch.tensor(EDGES, dtype=torch.float64)
    if names is UNARY:
        return (torch.cat([spread(-12, 12), spread(0, 1), 10 ** spread(-20, 3), edges]),)
    if names is POLYNOMIALS:
        degrees = torch.randint(-2, 20, (COUNT,)).double()
        # Of NaN eager's polynomials are whatever was in memory.
        pairs = edge_pairs([-1.0, 0.0, 1.0, 2.0, 3.5, 9.0, 200.0, math.inf, math.nan])
        known = ~torch.isnan(pairs[0])
        ordinary = torch.randn(COUNT, dtype=torch.float64) * 1.5, degrees
        return tuple(torch.cat([x, e[known]]) for x, e in zip(ordinary, pairs, strict=True))
    a = torch.cat([spread(0, 60), spread(0, 3), 10 ** spread(-2, 4)])
    near = a[2 * COUNT :] * (1 + 0.3 * torch.randn(COUNT, dtype=torch.float64)).abs()
    b = torch.cat([spread(-9, 60), spread(0, 3), near])
    a[: COUNT // 4] = a[: COUNT // 4].round()
    return tuple(torch.cat([x, e]) for x, e in zip((a, b), edge_pairs(EDGES), strict=True))


def together(names: dict[str, Function]) -> Callable[..., list[torch.Tensor]]:
    def all_of_them(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [f(*xs) for f in names.values()]

    return all_of_them


def relative_error(got: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest one where the exact result is an ordinary float32, in units of its last place."""
    ordinary = (exact.abs() > 1e-30) & (exact.abs() < 1e30)
    error = (got[ordinary].double() - exact[ordinary]).abs() / exact[ordinary].abs()
    return float(error.nan_to_num(0.0, 0.0).max()) / torch.finfo(torch.float32).eps


@pytest.mark.parametrize("profile", SLOW_PROFILES)
@pytest.mark.parametrize("device", two_drivers())
@pytest.mark.parametrize("names", [UNARY, POLYNOMIALS, GAMMA], ids=["one", "polynomial", "gamma"])
def test_special_functions(names: dict[str, Function], device: str, profile: str) -> None:
    """As near to float64 as twice what eager is, and the same special values."""
    torch.manual_seed(5)
    wide = arguments(names)
    xs = tuple(x.float() for x in wide)
    fn = together(names)
    exact = fn(*(x.double() for x in xs))
    found = compiled(fn, device, profile=profile, fallback="error")(*xs)
    for name, ours, eager, best in zip(names, found, fn(*xs), exact, strict=True):
        ordinary = ~torch.isinf(best)  # what overflows in float32 does so a little earlier or later
        same = (torch.isnan(ours) == torch.isnan(eager)) & (torch.isinf(ours) == torch.isinf(eager))
        overflow = ordinary & (best.abs() > 3e38)
        different = [[float(x[k]) for x in xs] for k in (~same & ~overflow).nonzero()[:3, 0]]
        assert not different, f"{name} of {different}"
        assert relative_error(ours, best) <= 2 * relative_error(eager, best) + 16, name


@pytest.mark.parametrize("device", two_drivers())
def test_zeta_where_its_terms_are_too_small_for_a_number(device: str) -> None:
    """The sum of 1e30^-1.5, (1e30 + 1)^-1.5 and so on is 2e-15."""
    x = torch.tensor([1.25, 1.5, 1.5, 2.0, 1.5])
    q = torch.tensor([1e36, 1e30, 1e38, 1e36, math.inf])
    found = compiled(torch.special.zeta, device, fallback="error")(x, q)
    torch.testing.assert_close(found, torch.special.zeta(x, q), rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("device", two_drivers())
def test_special_functions_in_double_precision(device: str) -> None:
    """Eager is the reference; its uniform expansion of igamma takes pi in single precision."""
    torch.manual_seed(6)
    for names in (UNARY, POLYNOMIALS, GAMMA):
        xs = arguments(names)
        fn = together(names)
        found = compiled(fn, device, fallback="error")(*xs)
        for name, ours, eager in zip(names, found, fn(*xs), strict=True):
            tolerance = 3e-9 if name.startswith("igamma") else 1e-10
            torch.testing.assert_close(
                ours, eager, rtol=tolerance, atol=1e-11, equal_nan=True, msg=lambda m, n=name: n + m
            )


@pytest.mark.parametrize("device", two_drivers())
def test_incomplete_gamma_functions_beside_mpmath(device: str) -> None:
    """In double precision, where eager is good to nine digits only."""
    a = torch.tensor([30.0, 50.0, 100.0, 25.0, 150.0, 1000.0, 0.3, 7.0, 1e-3], dtype=torch.float64)
    x = torch.tensor([28.0, 45.0, 120.0, 31.0, 150.5, 1010.0, 0.2, 12.0, 3.0], dtype=torch.float64)
    lower, upper = compiled(lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)), device)(a, x)
    with mpmath.workdps(30):
        pairs = list(zip(a.tolist(), x.tolist(), strict=True))
        below = [float(mpmath.gammainc(u, 0, v, regularized=True)) for u, v in pairs]
        above = [float(mpmath.gammainc(u, v, regularized=True)) for u, v in pairs]
    for got, want in ((lower, below), (upper, above)):
        expected = torch.tensor(want, dtype=torch.float64)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-15)


def halves(dtype: torch.dtype) -> torch.Tensor:
    """Every value of a half type."""
    return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)


@pytest.mark.parametrize("profile", SLOW_PROFILES)
@pytest.mark.parametrize("device", two_drivers())
def test_neighbours_and_parts_of_all_half_numbers(device: str, profile: str) -> None:
    """The primitives "nextafter_float16", "nextafter_bfloat16", "frexp_mantissa" and
    "frexp_exponent"."""
    for dtype in (torch.float16, torch.bfloat16):
        x = halves(dtype)

        def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            up, down = torch.full_like(x, math.inf), torch.full_like(x, -math.inf)
            others = torch.nextafter(x, up), torch.nextafter(x, down), torch.nextafter(x, x * 0)
            return *others, *torch.frexp(x)

        agree(parts, x, device=device, profile=profile, rtol=0, atol=0)


@pytest.mark.parametrize("device", two_drivers())
def test_frexp(device: str) -> None:
    for dtype in (torch.float32, torch.float64):
        tiny = torch.finfo(dtype).smallest_normal
        x = torch.cat([torch.tensor(EDGES), torch.randn(100) * 10.0 ** torch.randn(100)]).to(dtype)
        x = torch.cat([x, torch.tensor([tiny, -3 * tiny], dtype=dtype)])
        agree(torch.frexp, x, device=device, rtol=0, atol=0)


@pytest.mark.parametrize("device", two_drivers()[:1])
def test_gradients(device: str) -> None:
    """Those of digamma, lgamma, polygamma, erfcx, ndtri, log_ndtr, i0e, i1, igamma and sgn."""
    functions: list[Function] = [
        torch.digamma, torch.lgamma, lambda x: torch.polygamma(2, x), torch.special.erfcx,
        lambda x: torch.special.ndtri(torch.sigmoid(x)), torch.special.log_ndtr, torch.special.i0e,
        torch.special.i1, lambda x: torch.igamma(torch.full_like(x, 2.5), x), torch.sgn,
        torch.sinc, torch.special.entr, lambda x: torch.special.xlog1py(x, x),
        lambda x: torch.logit(torch.sigmoid(x)), lambda x: torch.frexp(x)[0],
    ]  # fmt: skip

    def total(x: torch.Tensor) -> torch.Tensor:
        return sum(f(x).sum() for f in functions)

    x = torch.rand(64) * 3 + 0.4
    grads = []
    for f in (compiled(total, device, fallback="error"), total):
        leaf = x.clone().requires_grad_()
        f(leaf).backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("device", two_drivers())
def test_power_of_doubles_beside_special_values(device: str) -> None:
    """One lane's infinity must not reach its neighbours."""
    numbers = torch.tensor([*EDGES, 1e-6, 0.3, 1e20], dtype=torch.float64)
    torch.manual_seed(7)
    a, b = (numbers[torch.randint(0, len(numbers), (2048,))] for _ in range(2))
    agree(torch.pow, a, b, device=device, rtol=1e-13, atol=0)
