"""Whether compiled results are right, beside eager and the reference of noise.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fuzz.noise import Reference

#: Allowed beyond eager's and float64's results, in spreads of the noisy runs: of the element, and
#: of the median element. Functions of OpenCL may be wrong by some units, of which a run has one.
SPREADS, MEDIANS = 16.0, 4.0

#: Units in the last place that are never wrong. The reference has no digits to spare in float64,
#: where eager adds up long sums one by one: of 200000 numbers 400 units were wrong.
UNITS, UNITS_OF_FLOAT64 = 8, 1024


@dataclass(frozen=True, slots=True)
class Verdict:
    """``wrong``: what is wrong, or nothing. Elements in all, and those without a certain value.

    ``foreign``: what is wrong with PyTorch's own ``aot_eager`` as well, which has no compiler.
    ``refused``: the error that says that the compiler cannot know what eager would give.
    """

    wrong: str = ""
    elements: int = 0
    undecided: int = 0
    foreign: str = ""
    refused: str = ""


def compare(actual: Sequence[Any], eager: Sequence[Any], reference: Reference) -> Verdict:
    elements = undecided = 0
    for k, (a, e, x) in enumerate(zip(actual, eager, reference.exact)):
        noisy = [run[k] for run in reference.noisy]
        wrong, loose = _leaf(a, e, x, noisy)
        if wrong:
            return Verdict(f"result {k}: {wrong}")
        elements += e.numel() if isinstance(e, torch.Tensor) else 1
        undecided += loose
    if len(actual) != len(eager):
        return Verdict(f"{len(actual)} results instead of {len(eager)}")
    return Verdict("", elements, undecided)


def _leaf(a: Any, e: Any, x: Any, noisy: Sequence[Any]) -> tuple[str, int]:
    """What is wrong, and how many elements are undecided."""
    if not isinstance(e, torch.Tensor):
        return ("" if type(a) is type(e) and (a == e or a != a) else f"{a!r} instead of {e!r}"), 0
    if not isinstance(a, torch.Tensor):
        return f"{a!r} instead of a tensor", 0
    if (a.dtype, a.shape) != (e.dtype, e.shape):
        return f"{a.dtype} {list(a.shape)} instead of {e.dtype} {list(e.shape)}", 0
    if e.numel() == 0:
        return "", 0
    if not e.is_floating_point():
        wrong = (a != e) & (a != x)
        loose = torch.zeros_like(wrong)
        for n in noisy:
            wrong &= a != n
            loose |= n != x
        bad = wrong & ~loose
        return _said(bad, a, e, x, torch.zeros_like(bad)), int(loose.sum())
    dtype, (a, e) = e.dtype, (a.double(), e.double())
    spread = torch.zeros_like(e)
    loose = torch.zeros_like(e, dtype=torch.bool)
    for n in noisy:
        both = n.isfinite() & x.isfinite()
        loose |= ~both & (n != x) & ~(n.isnan() & x.isnan())
        spread = torch.where(both, torch.maximum(spread, (n - x).abs()), spread)
    info = torch.finfo(dtype)
    units = UNITS_OF_FLOAT64 if dtype is torch.float64 else UNITS
    allowed = SPREADS * spread + MEDIANS * spread.median() + 2 * info.tiny
    wrong = torch.ones_like(loose)
    for value in (x, e, *noisy):
        value = torch.where(value.abs() > info.max, value.sign() * torch.inf, value)
        near = (a - value).abs() <= allowed + units * info.eps * value.abs()
        wrong &= ~(near | (a == value) | (a.isnan() & value.isnan()))
    # At the edge of the type's range a rounding decides between a number and infinity.
    loose |= x.isfinite() & (x.abs() * (1 + units * info.eps) > info.max)
    return _said(wrong & ~loose, a, e, x, allowed), int(loose.sum())


def _said(
    bad: torch.Tensor, a: torch.Tensor, e: torch.Tensor, x: torch.Tensor, allowed: torch.Tensor
) -> str:
    if not bad.any():
        return ""
    at = tuple(bad.nonzero()[0].tolist())
    return (
        f"{a[at].item()} instead of {e[at].item()} (float64: {x[at].item()}, allowed difference "
        f"{allowed[at].item():.2g}) at {list(at)}; {int(bad.sum())} of {bad.numel()} elements"
    )
