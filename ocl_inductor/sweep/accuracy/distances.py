"""How far two results lie apart, and how far each is from float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

#: Elements looked at together: a copy of them in float64 stays in a core's cache. Whole gradients
#: of large models made this a fifth of such a row's time, most of it for fresh memory.
_PIECE = 1 << 17


def floating(*values: object) -> bool:
    """Whether all are tensors of floating point."""
    return all(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values)


def identical(reference: object, value: object) -> bool:
    """Whether both are tensors of one dtype and shape with the same numbers, none of them NaN."""
    if not isinstance(reference, torch.Tensor) or not isinstance(value, torch.Tensor):
        return False
    return reference.dtype == value.dtype and torch.equal(reference, value)


def difference(reference: object, value: object) -> float:
    """The largest absolute difference; infinity where only one side is finite."""
    if not isinstance(reference, torch.Tensor) or not isinstance(value, torch.Tensor):
        return 0.0 if reference == value else math.inf
    if reference.shape != value.shape:
        return math.inf
    if identical(reference, value):
        return 0.0
    if floating(reference, value):  # what gradients are: no need for what follows if all is finite
        found = [0.0, *(float((r - v).abs_().max()) for r, v in _pieces(reference, value))]
        if all(map(math.isfinite, found)):
            return max(found)
    left, right = reference.to(torch.complex128), value.to(torch.complex128)
    if not reference.is_complex():
        left, right = left.real, right.real
    alike = (left == right) | (left.isnan() & right.isnan())
    distances = torch.where(alike, 0.0, (left - right).abs()).nan_to_num(math.inf, math.inf)
    return float(distances.max())


def rmse_ratio(reference: Any, value: Any, exact: Any) -> float | None:
    """The root-mean-square distance of ``value`` from ``exact`` as a multiple of ``reference``'s.

    The latter counts as half a unit in the last place at least. None where there is no such number:
    not all three are of floating point and of one shape, or ``exact`` is not in float64 or 0.
    """
    if not floating(reference, value, exact) or reference.shape != value.shape:
        return None
    if exact.dtype is not torch.float64 or not reference.numel() or exact.shape != value.shape:
        return None
    size = _rms(exact.numel(), (e for (e,) in _pieces(exact)))
    own = _rms(exact.numel(), (e - r for e, r in _pieces(exact, reference)))
    own = max(own, size * torch.finfo(reference.dtype).eps / 2)
    if not own > 0:
        return None
    ratio = _rms(exact.numel(), (e - v for e, v in _pieces(exact, value))) / own
    return ratio if math.isfinite(ratio) else math.inf


def _rms(count: int, pieces: Iterator[torch.Tensor]) -> float:
    """The root of the mean square of ``count`` elements; NaN with a NaN among them."""
    return math.sqrt(sum(float(torch.dot(p, p)) for p in pieces) / count)


def _pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same elements of each tensor, in float64 and in turns."""
    flat = [t.reshape(-1) for t in tensors]
    for start in range(0, flat[0].numel(), _PIECE):
        yield tuple(t[start : start + _PIECE].double() for t in flat)
