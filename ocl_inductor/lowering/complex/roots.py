"""Roots of unity, the constants of Fourier transforms."""

from __future__ import annotations

import math

import torch


def unit_roots(turns: torch.Tensor, n: int, sign: int) -> torch.Tensor:
    """``exp(sign * 2 pi i turns / n)`` in complex128, for integers; exact at multiples of a quarter
    turn, so that the imaginary part of a sum of real numbers is 0 there, as in eager."""
    quarters, rest = 4 * (turns % n) // n, 4 * (turns % n) % n
    angle = torch.minimum(rest, n - rest).double() * (math.pi / (2 * n))  # at most pi / 4
    beyond = 2 * rest > n
    re = torch.where(beyond, angle.sin(), angle.cos())
    im = torch.where(beyond, angle.cos(), angle.sin())
    quarter_turns = torch.tensor([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=torch.float64)[quarters]
    c, s = quarter_turns.unbind(-1)
    return torch.complex(c * re - s * im, sign * (c * im + s * re))
