"""Whether a compiled result is right: dtype, shape, and numbers beside eager and float64."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten

#: Largest difference from eager: of the element itself, and of the largest one. Reductions in
#: another order differ by some units in the last place of their largest term; half types are
#: computed in float32 here and rounded once, where eager rounds after each operator.
TOLERANCE = {
    torch.float64: (1e-9, 1e-11),
    torch.float32: (1e-4, 1e-5),
    torch.float16: (8 * 2**-10, 4 * 2**-10),
    torch.bfloat16: (8 * 2**-7, 4 * 2**-7),
}

#: How much further than eager a float32 result may be from float64, and an absolute part in units
#: of the result's scale.
EPSILON = torch.finfo(torch.float32).eps
WORSE_THAN_EAGER, UNITS = 4.0, 16 * EPSILON

#: Differences that are never wrong, in units of the largest number around (between 1 and 100): what
#: is left where such numbers cancel, as in the gradient of a normalisation.
CANCELLED = {torch.float32: EPSILON / 2, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def problem(actual: Any, eager: Any, exact: Any, *, values: bool = True) -> str | None:
    """What is wrong with ``actual``, or None.

    ``exact``: the same computation in float64, or None where that does not exist. ``values``:
    whether the numbers count, or only structure, dtypes and shapes.
    """
    mine, structure = tree_flatten(actual)
    its, wanted = tree_flatten(eager)
    if len(mine) != len(its) or str(structure) != str(wanted):
        return f"structure {structure} instead of {wanted}"
    better, _ = tree_flatten(exact)
    if len(better) != len(its):
        better = [None] * len(its)
    around = max((_largest(e) for e in its), default=1.0)
    around = min(max(around, 1.0), 100.0)
    for k, (a, e, x) in enumerate(zip(mine, its, better)):
        wrong = _leaf_problem(a, e, x, values, around)
        if wrong is not None:
            return wrong if len(its) == 1 else f"result {k}: {wrong}"
    return None


def _largest(x: Any) -> float:
    floats = isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
    if not floats or x.numel() == 0:
        return 0.0
    return float(_plain(x).double().nan_to_num(0.0, 0.0, 0.0).abs().max())


def _leaf_problem(a: Any, e: Any, x: Any, values: bool, around: float) -> str | None:
    if not isinstance(e, torch.Tensor):
        same = type(a) is type(e) and (not values or a == e or (a != a and e != e))
        return None if same else f"{a!r} instead of {e!r}"
    if not isinstance(a, torch.Tensor):
        return f"{type(a).__name__} instead of a tensor"
    if (a.dtype, a.shape, a.layout) != (e.dtype, e.shape, e.layout):
        return f"{_describe(a)} instead of {_describe(e)}"
    if not values or e.numel() == 0:
        return None
    if isinstance(x, torch.Tensor) and x.shape == e.shape:
        x = _plain(x)
    a, e = _plain(a), _plain(e)
    if not e.dtype.is_floating_point:
        wrong = int((a != e).sum())
        return f"{wrong} of {e.numel()} elements differ" if wrong else None
    if not isinstance(x, torch.Tensor) or x.shape != e.shape or x.dtype is not torch.float64:
        x = None
    return _float_problem(a, e, x, CANCELLED.get(e.dtype, 0.0) * around)


def _float_problem(
    a: torch.Tensor, e: torch.Tensor, x: torch.Tensor | None, tiny: float
) -> str | None:
    rtol, units = TOLERANCE.get(e.dtype, (0.0, 0.0))
    half = e.dtype in (torch.float16, torch.bfloat16)
    a, e = a.double(), e.double()
    finite = a.isfinite() & e.isfinite()
    odd = ~finite & (a != e) & ~(a.isnan() & e.isnan())
    if half and x is not None:
        # Eager's steps in between may overflow where one wider step does not.
        odd &= ~(a.isfinite() & ((a - x).abs() <= rtol * x.abs()))
    if odd.any():
        where = odd.nonzero()[0].tolist()
        return f"{a[odd][0]} instead of {e[odd][0]} at {where}, {int(odd.sum())} such elements"
    a, e = a[finite], e[finite]
    if e.numel() == 0:
        return None
    scale = e.abs().max().item()
    error, allowed = (a - e).abs(), rtol * e.abs() + units * scale + tiny
    if x is not None:
        x = x[finite]
        known = x.isfinite()
        a, e, x = a[known], e[known], x[known]
    if x is not None and x.numel():
        mine, its = (a - x).abs(), (e - x).abs()
        # An ill-conditioned result: nobody's digits are right, but ours are as near.
        near = torch.zeros_like(error, dtype=torch.bool)
        near[known] = mine <= its if half else mine <= its + 1e-6 * x.abs()
        if x.abs().max() < its.max():  # a zero that eager misses everywhere: all of it is noise
            near[known] |= mine <= its.max()
        bound = WORSE_THAN_EAGER * its.max().item() + UNITS * x.abs().max().item() + tiny
        if not half and mine.max().item() > bound:
            return (
                f"error {mine.max().item():.3g} from float64, where eager has "
                f"{its.max().item():.3g} (scale {scale:.3g})"
            )
        allowed = torch.where(near, torch.inf, allowed)
    wrong = error > allowed
    if wrong.any():
        return f"differs by {error[wrong].max().item():.3g} (scale {scale:.3g})"
    return None


def _plain(t: torch.Tensor) -> torch.Tensor:
    """Dense, real, without lazy bits."""
    t = t.detach()
    if t.layout is not torch.strided:
        t = t.to_dense()
    if t.is_quantized:
        t = t.dequantize()
    t = t.resolve_conj().resolve_neg()
    return torch.view_as_real(t) if t.is_complex() else t


def _describe(t: torch.Tensor) -> str:
    return f"{str(t.dtype)[6:]}{list(t.shape)}" + ("" if t.layout is torch.strided else " sparse")
