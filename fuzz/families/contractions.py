"""Matrix products and convolutions."""

from __future__ import annotations

from fuzz.generator import Generator
from fuzz.program import SUM


def product(g: Generator) -> None:
    if g.chance(0.15) and not g.small:
        _long(g)
        return
    x = g.floating(min_rank=1)
    value = g.value(x)
    dtype = str(value.dtype)[6:]
    k, batch = value.shape[-1], list(value.shape[:-2])
    m = value.shape[-2] if value.dim() > 1 else 1
    n = g.size()
    which = g.rng.randrange(12)
    if which > 8:
        _rare(g, x, which)
    elif which < 2:
        bias = f",{g.new([n], dtype)}" if g.chance(0.6) else ""
        g.emit(f"F.linear({x},{g.new([n, k], dtype)}{bias})", SUM)
    elif which < 4:
        shape = [*([] if g.chance(0.5) else [1 if g.chance(0.2) else b for b in batch]), k, n]
        y = g.pick(lambda t: t.dtype == value.dtype and t.dim() > 1 and t.shape[-2] == k)
        if y is None or g.chance(0.6):
            y = g.new(shape, dtype)
        g.emit(f"torch.matmul({x},{y})", SUM)
    elif which == 4:
        g.emit(f"torch.matmul({x},{x}.mT)" if value.dim() > 1 else f"torch.outer({x},{x})", SUM)
    elif which == 5 and value.dim() == 2:
        c = g.new([1 if g.chance(0.3) else m, n], dtype)
        scales = g.rng.choice(("", ",beta=0.5,alpha=2"))
        g.emit(f"torch.addmm({c},{x},{g.new([k, n], dtype)}{scales})", SUM)
    elif which == 6 and value.dim() == 3:
        c = g.new([batch[0], m, n], dtype)
        g.emit(f"torch.baddbmm({c},{x},{g.new([batch[0], k, n], dtype)})", SUM)
    elif which == 7:
        g.emit(f"torch.matmul({x},{g.new([k], dtype)})", SUM)
    elif value.dim() == 3:
        y = g.new([n, k], dtype)
        text = g.rng.choice(
            ("bmk,nk->bnm", "bmk,nk->mn", "bmk,nk->bn", "bmk,nk->nmb", "...k,nk->...", "bmk,nk")
        )
        g.emit(f"torch.einsum('{text}',{x},{y})", SUM)
    else:
        g.emit(f"torch.tensordot({x},{g.new([k, n], dtype)},1)", SUM)


def _long(g: Generator) -> None:
    """Sums over so many elements that kernels for layers compute them."""
    k = g.rng.choice((48, 96, 257, 300, 512, 600, 1030))
    m, n = g.rng.choice((1, 2, 3, 4, 5, 8, 19, 33)), g.rng.choice((1, 3, 16, 17, 33))
    x, batch = g.new([m, k]), [2] if g.chance(0.2) else []
    if g.chance(0.7):
        bias = f",{g.new([n])}" if g.chance(0.5) and not batch else ""
        g.emit(f"F.linear({x},{g.new([n, k])}{bias})", SUM)
    elif g.chance(0.5):
        g.emit(f"torch.matmul({x},{g.new([*batch, n, k])}.mT)", SUM)
    else:
        g.emit(f"torch.matmul({x},{g.new([*batch, k, n])})", SUM)


def _rare(g: Generator, x: str, which: int) -> None:
    """Products with a name of their own."""
    value = g.value(x)
    dtype, rank, k = str(value.dtype)[6:], value.dim(), value.shape[-1]
    if which == 9 and rank == 2:
        vector = g.new([k], dtype)
        g.emit(f"torch.addmv({g.new([value.shape[0]], dtype)},{x},{vector},alpha=0.5)", SUM)
    elif which == 9 and rank == 3:
        c = g.new([value.shape[1], 3], dtype)
        g.emit(f"torch.addbmm({c},{x},{g.new([value.shape[0], k, 3], dtype)},beta=2)", SUM)
    elif which == 10 and rank > 1:
        y = g.new([*value.shape[:-2], g.rng.choice((1, 3, 7, 30)), k], dtype)
        g.emit(f"torch.cdist({x},{y},p=1.0)", SUM)
    elif which == 10:
        g.emit(f"torch.inner({x},{g.new([2, k], dtype)})", SUM)
    elif value.numel() < 500:
        g.exact(f"torch.kron({x},{g.new(g.rng.choice(([2], [2, 3])), dtype, 'lattice')}.sign())")


def convolution(g: Generator) -> None:
    rank = g.rng.choices((1, 2, 3), (3, 6, 1))[0]
    x = g.pick(lambda t: t.is_floating_point() and t.dim() == rank + 2 and 0 not in t.shape)
    if x is None or g.chance(0.3):
        sizes = [g.rng.choice((4, 5, 7, 8, 9, 13, 16, 19)) for _ in range(rank)]
        if rank == 3:
            sizes = [min(n, 7) for n in sizes]
        channels = g.rng.choice((1, 2, 3, 4, 8, 12, 16, 19, 32))
        if g.small:
            sizes, channels = [5] * rank, 3
        x = g.new([g.rng.choice((1, 1, 2, 3)), channels, *sizes], g.dtype)
    value = g.value(x)
    channels = value.shape[1]
    if channels > 64 or (value.dtype.itemsize == 2 and rank == 3):
        return
    dtype = str(value.dtype)[6:]
    groups = g.rng.choice([k for k in (1, 1, 1, 2, 4, channels) if channels % k == 0])
    out = groups * g.rng.choice((1, 2, 3, 5, 8))
    kernel = [g.rng.choice((1, 2, 3, 3, 3, 5)) for _ in range(rank)]
    if g.chance(0.6):
        kernel = [kernel[0]] * rank
    stride, pad = g.rng.choice((1, 1, 1, 2, 3)), g.rng.choice((0, 1, 1, 2))
    dilation = g.rng.choice((1, 1, 1, 2))
    bias = g.chance(0.5)
    # Whether an infinite weight, or gradient, meets the zeros that stand for what lies outside of
    # the input depends, in eager, on the dtype and on how large the layer is.
    if g.special and g.backward:
        pad = 0
    kind = g.finite()
    if g.chance(0.25):
        w = g.new([channels, out // groups, *kernel], dtype, kind)
        b = g.new([out], dtype) if bias else "None"
        extra = g.rng.randrange(max(stride, dilation))
        options = f"stride={stride},padding={pad},output_padding={extra},dilation={dilation}"
        g.emit(f"F.conv_transpose{rank}d({x},{w},{b},{options},groups={groups})", SUM)
        return
    w = g.new([out, channels // groups, *kernel], dtype, kind)
    b = g.new([out], dtype) if bias else "None"
    same = stride == 1 and g.chance(0.1) and not (g.special and g.backward)
    padding = "'same'" if same else str(pad)
    options = f"stride={stride},padding={padding},dilation={dilation},groups={groups}"
    g.emit(f"F.conv{rank}d({x},{w},{b},{options})", SUM)
