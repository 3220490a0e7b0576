"""Transforms of a few points in registers, as straight-line OpenCL.

A prime number of points takes sums and differences of pairs, a composite one is transforms of its
factors with constants between them (J. W. Cooley and J. W. Tukey, 1965). A factor of a quarter of a
turn exchanges parts, one of an eighth is a sum and a difference. Constants are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Prime factors of numbers of points: a transform of p points takes (p - 1)^2 products.
PRIMES = (2, 3, 5, 7, 11, 13)


def butterfly(points: int, sign: int, acc: str) -> list[str]:
    """Statements that replace ``x[0]`` to ``x[points - 1]`` by their transform.

    ``sign``: of the exponent; ``acc``: ``"float"`` or ``"double"``, the type of each part.
    """
    code = _Code(sign, acc)
    results = code.transform([f"x[{n}]" for n in range(points)])
    return [*code.lines, *(f"x[{n}] = {value};" for n, value in enumerate(results))]


def _first_factor(points: int) -> int:
    """A factor that splits a number of points: 4, which needs no products, or a prime."""
    if points % 4 == 0:
        return 4 if points > 4 else 2
    return next(p for p in PRIMES if points % p == 0)


class _Code:
    """Straight-line code, in which each value is a constant of its own."""

    def __init__(self, sign: int, acc: str) -> None:
        self.lines: list[str] = []
        self._sign, self._pair, self._suffix = sign, f"{acc}2", "f" if acc == "float" else ""

    def _let(self, value: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"const {self._pair} {name} = {value};")
        return name

    def _number(self, x: float) -> str:
        return f"{x!r}{self._suffix}"

    def _quarter_turn(self, x: str, sign: int) -> str:
        """``x`` times ``sign * i``."""
        parts = f"-{x}.y, {x}.x" if sign > 0 else f"{x}.y, -{x}.x"
        return self._let(f"({self._pair})({parts})")

    def _turned(self, x: str, turns: int, n: int) -> str:
        """``x`` times ``exp(sign * 2 pi i turns / n)``."""
        eighths, rest = divmod(8 * (turns % n), n)
        if rest:
            angle = 2 * math.pi * turns / n
            c, s = self._number(math.cos(angle)), self._number(self._sign * math.sin(angle))
            re, im = f"{c} * {x}.x - {s} * {x}.y", f"{c} * {x}.y + {s} * {x}.x"
            return self._let(f"({self._pair})({re}, {im})")
        if eighths % 2:
            a = "" if eighths in (1, 7) else "-"
            minus, plus = "-+" if (eighths < 4) == (self._sign > 0) else "+-"
            parts = f"{a}{x}.x {minus} {x}.y, {a}{x}.y {plus} {x}.x"
            return self._let(f"{self._number(math.sqrt(0.5))} * ({self._pair})({parts})")
        if eighths == 0:
            return x
        if eighths == 4:
            return self._let(f"-{x}")
        return self._quarter_turn(x, self._sign if eighths == 2 else -self._sign)

    def transform(self, x: Sequence[str]) -> list[str]:
        """Names of the transform of the values ``x``."""
        n = len(x)
        if n == 1:
            return list(x)
        first = _first_factor(n)
        if first == n:
            return self._prime(x)
        # Point k1 + k2 * second of the result is point k2 of the transform of those at k1.
        second = n // first
        parts = [self.transform(x[start::first]) for start in range(first)]
        result = [""] * n
        for k in range(second):
            turned = [self._turned(part[k], j * k, n) for j, part in enumerate(parts)]
            result[k::second] = self.transform(turned)
        return result

    def _prime(self, x: Sequence[str]) -> list[str]:
        """Results k and n - k are the sum and the difference of a cosine and a sine sum."""
        n, first = len(x), x[0]
        if n == 2:
            return [self._let(f"{first} + {x[1]}"), self._let(f"{first} - {x[1]}")]
        half = range(1, n // 2 + 1)
        sums = [self._let(f"{x[j]} + {x[n - j]}") for j in half]
        differences = [self._let(f"{x[j]} - {x[n - j]}") for j in half]
        result = [self._let(" + ".join([first, *sums]))] + [""] * (n - 1)
        for k in half:
            angles = [2 * math.pi * (j * k % n) / n for j in half]
            cosines = [f"{self._number(math.cos(a))} * {s}" for a, s in zip(angles, sums)]
            sines = [f"{self._number(math.sin(a))} * {d}" for a, d in zip(angles, differences)]
            even = self._let(" + ".join([first, *cosines]))
            odd = self._quarter_turn(self._let(" + ".join(sines)), self._sign)
            result[k] = self._let(f"{even} + {odd}")
            result[n - k] = self._let(f"{even} - {odd}")
        return result
