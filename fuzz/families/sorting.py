"""Order: sort, topk, median."""

from __future__ import annotations

from fuzz.generator import Generator


def sort(g: Generator) -> None:
    x = g.pick(lambda t: t.dtype.is_floating_point or t.dtype.itemsize > 1) or g.floating(1)
    value = g.value(x)
    d, down = g.dim(x), g.chance(0.5)
    n = value.shape[d] if value.dim() else 1
    k = g.rng.randint(1, max(n, 1))
    choices = [
        (f"torch.sort({x},dim={d},descending={down},stable=True)", 2),
        (f"torch.argsort({x},dim={d},descending={down},stable=True)", 1),
        (f"torch.topk({x},{k},dim={d},largest={down})[0]", 1),
        (f"torch.kthvalue({x},{k},dim={d})[0]", 1),
        # A copy: of an expanded tensor eager returns what lay in memory before.
        (f"torch.median({x}.clone(),dim={d})[0]", 1),
        (f"torch.msort({x})", 1),
    ]
    # Which of equal elements the others take is left open, and their gradients show it.
    text, targets = g.rng.choice(choices[:2] if g.backward else choices)
    g.exact(text, targets)
