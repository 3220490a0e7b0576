"""Input tensors from a few words: numbers by kind and seed, memory by layout."""

from __future__ import annotations

import torch


def numbers(seed: int, kind: str, count: int, dtype: torch.dtype) -> torch.Tensor:
    """``count`` numbers.

    ``kind``: ``lattice`` are multiples of 1/8 between -4 and 4, on which sums and products are
    exact and ties are frequent; ``normal``; ``positive`` between 0.5 and 2; ``special`` has nan,
    infinities, zeros of both signs and very large and small numbers among lattice numbers;
    ``extreme`` are integers up to the limits of their type, which else are between -9 and 9.
    """
    g = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=g).bool()
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        x = torch.randint(max(info.min, -9), 10, (count,), generator=g).to(dtype)
        if kind == "extreme":
            where = torch.randint(0, 6, (count,), generator=g)
            x = x.where(where != 0, info.min).where(where != 1, info.max)
        return x.to(dtype)
    if kind == "normal":
        return torch.randn(count, generator=g, dtype=torch.float64).to(dtype)
    if kind == "positive":
        return (0.5 + 1.5 * torch.rand(count, generator=g, dtype=torch.float64)).to(dtype)
    x = (torch.randint(-32, 33, (count,), generator=g) / 8).to(dtype)
    if kind == "special":
        info = torch.finfo(dtype)
        large = info.max**0.4  # its square is a number
        odd = [torch.nan, torch.inf, -torch.inf, -0.0, 0.0, large, -large, info.tiny, 0.5, 2.5]
        where = torch.randint(0, 40, (count,), generator=g)
        for k, number in enumerate(odd):
            x[where == k] = number
    return x


def strides(shape: tuple[int, ...], layout: str) -> tuple[tuple[int, ...], int, int]:
    """Strides, offset and storage size, in elements.

    ``layout``: ``dense``; ``offset`` begins at the third element of its storage; ``reversed`` has
    its first dimension innermost; ``last`` has its second dimension innermost, as channels-last;
    ``gaps`` uses every second element; ``expanded`` has stride 0 in the first dimension;
    ``windows`` has rows that overlap.
    """
    order = list(range(len(shape)))
    if layout == "reversed":
        order = order[::-1]
    if layout == "last" and len(shape) > 2:
        order = [0, *order[2:], 1]
    step = 2 if layout == "gaps" else 1
    stride = [0] * len(shape)
    for k in reversed(order):
        stride[k] = step
        step *= max(shape[k], 1)
    if layout == "expanded" and shape:
        stride[0] = 0
    if layout == "windows" and len(shape) > 1:
        stride[-2] = 1
    offset = 3 if layout == "offset" else 0
    last = sum((n - 1) * s for n, s in zip(shape, stride)) if 0 not in shape else 0
    return tuple(stride), offset, offset + last + 1


def filled(
    seed: int,
    kind: str,
    shape: tuple[int, ...],
    layout: str,
    dtype: torch.dtype,
    *,
    wide: bool = False,
) -> torch.Tensor:
    """``numbers`` in memory that ``strides`` lays out; ``wide``: the same in float64."""
    stride, offset, count = strides(shape, layout)
    base = numbers(seed, kind, count, dtype)
    if wide and base.is_floating_point():
        base = base.double()
    return base.as_strided(shape, stride, offset)


def overlapping(x: torch.Tensor) -> bool:
    """Whether elements may share memory: some stride steps within what smaller ones cover."""
    covered = 0
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape) if n > 1):
        if stride <= covered:
            return True
        covered += stride * (size - 1)
    return False
