"""Coefficients of Temme's uniform expansion of the incomplete gamma functions.

DLMF 8.12.3 and 8.12.4: ``Q(a, x) = erfc(eta sqrt(a/2)) / 2 + exp(-a eta^2 / 2) S / sqrt(2 pi a)``
with ``S ~ sum c_k(eta) a^-k`` and ``eta^2 / 2 = x/a - 1 - log(x/a)``. Here ``c_k`` is a power
series in eta, whose coefficients are rational numbers and follow from recurrences (DiDonato and
Morris, ACM TOMS 12 (1986) 377-393).
"""

from __future__ import annotations

import functools
from fractions import Fraction

#: Powers of 1/a, and of eta, that the expansion needs for a >= 20 and |eta| <= 0.36.
TERMS = {"float": (5, 9), "double": (12, 18)}


@functools.cache
def uniform_coefficients(base: str) -> tuple[tuple[float, ...], ...]:
    """The series c_0, c_1, ..., each as its coefficients from the lowest power of eta on."""
    rows, columns = TERMS[base]
    count = columns + 2 * rows
    alpha = _inverse(count + 2)
    first = [(n + 2) * alpha[n + 2] for n in range(count)]
    first[0] -= 1
    table = [first]
    for k in range(1, rows):
        # (2k+1)!! alpha_{2k+1}: the k-th coefficient of Stirling's series, its sign alternating.
        double_factorial = 1
        for odd in range(3, 2 * k + 2, 2):
            double_factorial *= odd
        stirling = (-1) ** k * double_factorial * alpha[2 * k + 1]
        above = table[-1]
        table.append([stirling * first[n] + (n + 2) * above[n + 2] for n in range(len(above) - 2)])
    return tuple(tuple(float(x) for x in row[:columns]) for row in table)


def _inverse(count: int) -> list[Fraction]:
    """mu as a power series in eta, where ``eta^2 / 2 = mu - log(1 + mu)``: coefficients 0..count-1.

    Differentiated this is ``mu mu' = eta (1 + mu)``.
    """
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count):
        products = sum(
            (alpha[j] * (n + 1 - j) * alpha[n + 1 - j] for j in range(2, n)), Fraction(0)
        )
        alpha.append((alpha[n - 1] - products) / (n + 1))
    return alpha
