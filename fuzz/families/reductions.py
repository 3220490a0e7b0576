"""Reductions over any dimensions, and scans."""

from __future__ import annotations

import torch

from fuzz.generator import Generator
from fuzz.program import EXACT, FUNCTION, NORM, SUM


def reduce(g: Generator) -> None:
    x = g.pick() or g.floating()
    value = g.value(x)
    keep = g.chance(0.4)
    dims = f"dim={g.dims(x)},keepdim={keep}"
    one = f"dim={g.dim(x)},keepdim={keep}"
    if value.dtype is torch.bool:
        g.exact(f"{x}.{g.rng.choice(('any', 'all', 'sum', 'count_nonzero'))}({one.split(',')[0]})")
        return
    if not value.is_floating_point():
        name = g.rng.choice(("sum", "amax", "amin", "argmax", "argmin", "prod", "any", "all"))
        g.exact(f"{x}.{name}({dims if name in ('sum', 'amax', 'amin') else one})")
        return
    choices = [
        (f"{x}.sum({dims})", SUM),
        (f"{x}.mean({dims})", SUM),
        (f"{x}.sum()", SUM),
        (f"{x}.mean()", SUM),
        (f"{x}.amax({dims})", EXACT),
        (f"{x}.amin({dims})", EXACT),
        (f"{x}.argmax({one})", EXACT),
        (f"{x}.argmin({one})", EXACT),
        (f"{x}.var({dims},correction={g.rng.choice((0, 1))})", NORM),
        (f"{x}.std({dims})", NORM),
        (f"{x}.logsumexp({dims})", NORM),
        (f"torch.linalg.vector_norm({x},{g.rng.choice((1, 2, 3, 0.5))},{dims})", NORM),
        (f"torch.linalg.vector_norm({x},float('inf'),{dims})", EXACT),
        (f"{x}.any({one})", EXACT),
        (f"torch.count_nonzero({x},dim={g.dim(x)})", EXACT),
        (f"{x}.clamp(-1.25,1.25).prod({one})", NORM),
        (f"torch.nansum({x},{dims})", SUM),
        (f"torch.std_mean({x},{dims})[0]", NORM),
        (f"torch.aminmax({x},{one})[1]", EXACT),
        (f"torch.nanmean({x},{dims})", SUM),
        (f"{x}.norm()", NORM),
        (f"torch.trace({x})", SUM),
        (f"torch.renorm({x},2,{g.dim(x)},3.0)", NORM),
    ]
    if not g.backward:  # which of equal elements the others take is left open
        # Eager sorts rows with NaN in no particular order.
        known = f"{x}.masked_fill({x}.isnan(),0.5)"
        choices += [(f"torch.mode({known},{one})[0]", EXACT), (f"torch.nanmedian({x})", EXACT)]
        choices.append((f"torch.quantile({x},0.375,{one})", NORM))
    d = g.dim(x)
    if value.shape[d] > 1:  # else a sum less its one element, in half types rounded or not
        choices.append((f"torch.trapezoid({x},dim={d})", SUM))
    # In eager a running mean meets an infinity: whether that is left or NaN depends on its place.
    if g.chance(0.12) and value.isfinite().all():
        g.emit(f"torch.var_mean({x},{dims})", NORM, 2)
    elif g.chance(0.12):
        g.emit(f"torch.{g.rng.choice(('max', 'min'))}({x},{one})", EXACT, 2)
    else:
        g.emit(*g.rng.choice(choices))


def scan(g: Generator) -> None:
    x = g.pick(lambda t: t.dtype is not torch.bool) or g.floating()
    d = g.dim(x)
    rounding = SUM if g.value(x).is_floating_point() else EXACT
    choices = [
        (f"{x}.cumsum({d})", rounding, 1),
        (f"{x}.clamp(-1,1).cumprod({d})", FUNCTION, 1),
        (f"torch.cummax({x},{d})", EXACT, 2),
        (f"torch.cummin({x},{d})", EXACT, 2),
        (f"torch.diff({x},dim={d})", rounding, 1),
    ]
    if g.value(x).is_floating_point():
        choices.append((f"torch.logcumsumexp({x},{d})", NORM, 1))
    g.emit(*g.rng.choice(choices))
