"""Views, views of views, and copies that join tensors."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.generator import Generator
from fuzz.values import overlapping


def view(g: Generator) -> None:
    x = g.pick() or g.floating()
    if g.dynamic:
        text = _anywhere(g, x) if g.chance(0.8) else _sized(g, x)
    else:
        text = _anywhere(g, x) if g.chance(0.6) else _sized(g, x)
    if g.chance(0.3) and text is not None:
        made = g.exact(text)
        if made is None:
            return
        text = _anywhere(g, made[0])
    if text is not None:
        g.exact(text)


def _anywhere(g: Generator, x: str) -> str:
    """Views that name no size."""
    rank = g.value(x).dim()
    d, e = g.dim(x), g.dim(x)
    n = g.value(x).shape[d] if rank else 1
    order = g.rng.sample(range(rank), rank)
    step = g.rng.randint(1, 3)
    start = g.rng.randint(0, max(0, n // 2))
    whole = max(1, n // 100)  # PyTorch takes minutes to trace thousands of parts
    slices = [g.rng.choice((":", ":", "::2", "1:", ":-1", "-3:", "None", "..."))]
    slices += [g.rng.choice((":", "::3", "1:", ":-1", "0", "-1")) for _ in range(rank - 1)]
    if "..." in slices:
        slices = slices[: max(1, rank - 1)]
    # Eager writes into a copy with the same strides: what it gives where they overlap is chance.
    own = f"{x}.contiguous()" if overlapping(g.value(x)) or g.lies_in_overlapping(x) else x
    choices = [
        f"{x}.permute({order})",
        f"{x}.transpose({d},{e})",
        f"{x}.mT",
        f"{x}.unsqueeze({g.rng.randint(-rank - 1, rank)})",
        f"{x}.squeeze()",
        f"{x}.squeeze({d})",
        f"{x}.flatten({min(d % max(rank, 1), e % max(rank, 1))},-1)",
        f"{x}.reshape(-1)",
        f"{x}[{','.join(slices)}]",
        f"{x}.select({d},{g.rng.choice((0, -1))})",
        f"{x}.flip({g.dims(x)})",
        f"{x}.roll({g.rng.randint(-3, 5)},{d})",
        f"{x}.roll(2)",
        f"{x}.diagonal({g.rng.randint(-1, 1)},{d},{e})",
        f"{x}.movedim({d},{e})",
        f"torch.rot90({x},{g.rng.randint(-1, 2)},[{d},{e}])",
        f"torch.tril({x},{g.rng.randint(-1, 1)})",
        f"torch.triu({x},{g.rng.randint(-1, 1)})",
        f"{x}.narrow({d},{start},{x}.shape[{d}]-{start})",
        f"{x}.chunk({g.rng.randint(1, 4)},{d})[{g.rng.choice((0, -1))}]",
        f"{x}.split({g.rng.randint(1, 4) * whole},{d})[{g.rng.choice((0, -1))}]",
        f"{x}.unbind({d})[{g.rng.choice((0, -1))}]" if whole == 1 else f"{x}.select({d},-1)",
        f"{x}.unfold({d},{g.rng.randint(1, min(4, max(n, 1)))},{step})",
        f"{x}.contiguous()",
        f"torch.diag_embed({x})" if rank < 3 and g.value(x).numel() < 2000 else f"{x}.mT",
        f"torch.fliplr({x})",
        f"torch.tensor_split({x},{g.rng.randint(1, 3)},{d})[{g.rng.choice((0, -1))}]",
        f"torch.swapaxes({x},{d},{e})",
        f"torch.atleast_3d({x})",
        f"torch.slice_scatter({own},{x}.narrow({d},{start},1).clone(),{d},{start},{start + 1})",
        f"torch.select_scatter({own},{x}.select({e},0),{e},-1)",
        f"torch.diagonal_scatter({own},{x}.diagonal(0,{d},{e}).flip(-1),0,{d},{e})",
    ]
    return g.rng.choice(choices)


def _sized(g: Generator, x: str) -> str | None:
    """Views with sizes in them."""
    shape = list(g.value(x).shape)
    which = g.rng.randrange(5)
    if which == 0:
        return f"{x}.reshape({_factored(g, shape)})"
    if which == 1:
        return f"{x}.view({_factored(g, shape)})"
    if which == 2:
        wide = [g.rng.choice((2, 3)) if n == 1 and g.chance(0.8) else -1 for n in shape]
        lead = [g.rng.choice((1, 2, 3))] if g.chance(0.4) else []
        return f"{x}.expand({[*lead, *wide]})" if lead or wide else None
    if which == 3:
        stride = [g.rng.choice((1, 2, s, max(s - 1, 1), 0)) for s in g.value(x).stride()]
        sizes = [g.rng.randint(1, min(n, 9)) if n > 1 else 1 for n in shape]
        return f"{x}.as_strided({sizes},{stride},{g.rng.randint(0, 2)})"
    big = [d for d, n in enumerate(shape) if n > 3 and n % 2 == 0]
    return f"{x}.unflatten({g.rng.choice(big)},(2,-1))" if big else None


def _factored(g: Generator, shape: Sequence[int]) -> list[int]:
    """Other dimensions for as many elements."""
    count = 1
    for n in shape:
        count *= n
    if count == 0:
        return sorted(shape)
    dims: list[int] = []
    while count > 1 and len(dims) < 3:
        factors = [k for k in range(1, min(count, 200) + 1) if count % k == 0]
        dims.append(g.rng.choice(factors))
        count //= dims[-1]
    dims.append(count)
    g.rng.shuffle(dims)
    if g.chance(0.3):
        dims[g.rng.randrange(len(dims))] = -1
    return dims


def join(g: Generator) -> None:
    x = g.pick() or g.floating()
    value = g.value(x)
    d = g.dim(x)
    which = g.rng.randrange(6)
    if which < 2:
        shape = list(value.shape)
        if shape:
            shape[d] = g.size() if g.chance(0.5) else shape[d]
        y = g.pick(lambda t: t.shape == value.shape)
        if y is None or g.chance(0.5):
            dtype = str(value.dtype)[6:] if g.chance(0.8) else "float32"
            y = g.new(shape, dtype)
        parts = [x, y, x] if g.chance(0.3) else [x, y]
        g.rng.shuffle(parts)
        g.exact(f"torch.{'cat' if value.dim() else 'stack'}([{','.join(parts)}],{d})")
    elif which == 2:
        y = g.pick(lambda t: t.shape == value.shape and t.dtype == value.dtype) or x
        g.exact(f"torch.stack([{x},{y},{x}],{d})")
    elif which == 3:
        pads = [
            g.rng.choice((0, 1, 2, -1)) for _ in range(2 * g.rng.randint(1, max(1, value.dim())))
        ]
        mode = "constant"
        if value.dim() in (3, 4) and g.chance(0.4):
            mode = g.rng.choice(("reflect", "replicate", "circular"))
            pads = [abs(p) for p in pads[: 2 * (value.dim() - 2)]]
            pads += [0] * (2 * (value.dim() - 2) - len(pads))
        number = "" if mode != "constant" else f",{g.rng.choice((0, 1, -2))}"
        g.exact(f"F.pad({x},{pads},'{mode}'{number})")
    elif which == 4:
        times = [g.rng.choice((1, 2, 3)) for _ in range(max(1, value.dim()))]
        g.exact(f"{x}.repeat({times})")
    else:
        g.exact(f"torch.repeat_interleave({x},{g.rng.randint(1, 3)},dim={d})")
