"""Equation of state of sea water: a kernel of pyhpc-benchmarks (Häfner and Nuterman, 2021).

The temperature derivative of dynamic enthalpy by the 48-term expression for density of McDougall
et al. ("TEOS-10", IOC 2010; coefficients v01 to v48 of the Gibbs SeaWater toolbox). Specific
volume is N(p) / D(p) with D of degree 2 and N of degree 3 in pressure, so its integral over
pressure has a closed form; the derivative is carried along with every value (``Dual``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

# D at p = 0, without and with salinity; its terms in p and in p squared.
_D0 = (9.998420897506056e2, 2.839940833161907e0, -3.147759265588511e-2, 1.181805545074306e-3)
_D0_SALT = (-6.698001071123802e0, -2.986498947203215e-2, 2.327859407479162e-4)
_D0_ROOT = (
    -3.988822378968490e-2,
    5.095422573880500e-4,
    -1.426984671633621e-5,
    1.645039373682922e-7,
)
_D1 = (-2.233269627352527e-2, -3.436090079851880e-4, 3.726050720345733e-6)
_D1_SALT = (-1.806789763745328e-4, 6.876837219536232e-7)
_D2 = (-3.087032500374211e-7, -1.988366587925593e-8, -1.061519070296458e-11)
_D2_SALT = (1.550932729220080e-10,)
# N at p = 0, without salinity, with it, with its square, with its root; then in p, p^2, p^3.
_N0 = (
    1.0e0,
    2.775927747785646e-3,
    -2.349607444135925e-5,
    1.119513357486743e-6,
    6.743689325042773e-10,
)
_N0_SALT = (
    -7.521448093615448e-3,
    -2.764306979894411e-5,
    1.262937315098546e-7,
    9.527875081696435e-10,
    -1.811147201949891e-11,
)
_N0_ROOT = (
    -3.303308871386421e-5,
    3.801564588876298e-7,
    -7.672876869259043e-9,
    -4.634182341116144e-11,
    2.681097235569143e-12,
)
_N0_SQUARE = (5.419326551148740e-6,)
_N1 = (-2.742185394906099e-5, -3.212746477974189e-7, 3.191413910561627e-9, -1.931012931541776e-12)
_N1_SALT = (-1.105097577149576e-7, 6.211426728363857e-10)
_N2 = (-1.119011592875110e-10, -1.941660213148725e-11, -1.864826425365600e-14)
_N2_SALT = (1.119522344879478e-14,)  # times temperature
_N3 = (-1.200507748551599e-15, 6.057902487546866e-17)


class Dual(NamedTuple):
    """A value and its derivative by temperature."""

    value: Tensor
    slope: Tensor


def _add(*terms: Dual) -> Dual:
    return Dual(sum(t.value for t in terms), sum(t.slope for t in terms))  # type: ignore[arg-type]


def _scale(a: Dual, factor: Tensor | float) -> Dual:
    return Dual(a.value * factor, a.slope * factor)


def _mul(a: Dual, b: Dual) -> Dual:
    return Dual(a.value * b.value, a.slope * b.value + a.value * b.slope)


def _div(a: Dual, b: Dual) -> Dual:
    value = a.value / b.value
    return Dual(value, (a.slope - value * b.slope) / b.value)


def _sub(a: Dual, b: Dual) -> Dual:
    return Dual(a.value - b.value, a.slope - b.slope)


def _log(a: Dual) -> Dual:
    return Dual(torch.log(a.value), a.slope / a.value)


def _sqrt(a: Dual) -> Dual:
    value = torch.sqrt(a.value)
    return Dual(value, a.slope / (2 * value))


def _polynomial(coefficients: tuple[float, ...], t: Tensor) -> Dual:
    """Horner's scheme for a polynomial in temperature and its derivative."""
    value, slope = torch.full_like(t, coefficients[-1]), torch.zeros_like(t)
    for coefficient in reversed(coefficients[:-1]):
        slope = slope * t + value
        value = value * t + coefficient
    return Dual(value, slope)


class EquationOfState(nn.Module):
    """Salinity and temperature (X, Y, Z), pressure (1, 1, Z) to d(enthalpy)/dT (X, Y, Z)."""

    def forward(self, s: Tensor, t: Tensor, p: Tensor) -> Tensor:
        def poly(*coefficients: float) -> Dual:
            return _polynomial(coefficients, t)

        root = s * torch.sqrt(s)
        d0 = _add(poly(*_D0), _scale(poly(*_D0_SALT), s), _scale(poly(*_D0_ROOT), root))
        d1 = _scale(_add(poly(*_D1), _scale(poly(*_D1_SALT), s)), 0.5)  # D = d0 + 2 d1 p + d2 p^2
        d2 = _add(poly(*_D2), _scale(poly(*_D2_SALT), s))
        n0 = _add(
            poly(*_N0),
            _scale(poly(*_N0_SALT), s),
            _scale(poly(*_N0_ROOT), root),
            _scale(poly(*_N0_SQUARE), s * s),
        )
        n1 = _add(poly(*_N1), _scale(poly(*_N1_SALT), s))
        n2 = _add(poly(*_N2), _scale(poly(0.0, *_N2_SALT), s))
        n3 = poly(*_N3)
        # Polynomial division: N / D = q0 + q1 p + (r0 + r1 p) / D.
        q1 = _div(n3, d2)
        q0 = _div(_sub(n2, _scale(_mul(d1, q1), 2.0)), d2)
        r1 = _sub(_sub(n1, _mul(q1, d0)), _scale(_mul(d1, q0), 2.0))
        r0 = _sub(n0, _mul(q0, d0))
        # The integrals from 0 to p of 1 / D and of D' / D.
        s1 = _sqrt(_sub(_mul(d1, d1), _mul(d0, d2)))
        pressed = _scale(d2, p)
        near, far = _sub(d1, s1), _add(d1, s1)
        inverse = _log(_div(_mul(_add(near, pressed), far), _mul(_add(far, pressed), near)))
        inverse = _scale(_div(inverse, s1), 0.5)
        whole = _add(d0, _scale(d1, 2 * p), _scale(pressed, p))
        logarithm = _scale(_log(_div(whole, d0)), 0.5)
        rest = _sub(r0, _div(_mul(r1, d1), d2))
        total = _add(
            _scale(q0, p),
            _scale(q1, p * p / 2),
            _mul(_div(r1, d2), logarithm),
            _mul(rest, inverse),
        )
        return 1e4 * total.slope


def example_inputs(
    batch: int, sizes: Mapping[str, int], generator: torch.Generator
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Salinity in g/kg, temperature in degrees and pressure in dbar, in float64."""

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low

    grid = (sizes["X"] * batch, sizes["Y"], sizes["Z"])
    return (
        uniform(0.01, 10, *grid),
        uniform(-12, 20, *grid),
        uniform(0, 1000, 1, 1, sizes["Z"]),
    ), {}
