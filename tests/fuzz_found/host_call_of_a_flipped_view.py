"""Found by `make fuzz` (seed 1148149946, program 1029, intel, simt):

RuntimeError: as_strided: Negative strides are not supported at the moment, got strides: [9, 3, -73]
"""

import sys

import torch
from torch.nn import functional as F

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'intel', 'simt'


def program(i3, i4, i5):
    t1 = F.conv2d(i3,i4,i5,stride=1,padding=2,dilation=1,groups=4)
    t2 = torch.diagonal_scatter(t1,t1.diagonal(0,-1,0).flip(-1),0,-1,0)
    return [t2]


def inputs(D, E):
    i3 = filled(692, 'lattice', (E, 12, 1, 1), 'dense', torch.float32)
    i4 = filled(8657, 'normal', (D, E, E, E), 'dense', torch.float32)
    i5 = filled(3008, 'lattice', (D,), 'dense', torch.float32)
    return [i3, i4, i5]


CALLS = [(8, 3)]


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


def filled(seed, kind, shape, layout, dtype):
    stride, offset, count = strides(shape, layout)
    return numbers(seed, kind, count, dtype).as_strided(shape, stride, offset)


def weight(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Multiples of 1/4 between -1 and 1 without 0."""
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randint(0, 8, x.shape, generator=g)
    return ((numbers - 4 + (numbers >= 4)) / 4).to(x.dtype)


def results(function, sizes):
    """Outputs, inputs afterwards, and gradients of a weighted sum of both."""
    arguments = inputs(*sizes)
    outputs = list(function(*arguments))
    found = [x.detach() if isinstance(x, torch.Tensor) else x for x in outputs + arguments]
    if BACKWARD:
        wanted = [x for x in arguments if x.requires_grad and x.is_leaf]
        tensors = [x for x in outputs if isinstance(x, torch.Tensor)]
        written = [x for x in arguments if not x.is_leaf]
        outs = [x for x in tensors + written if x.requires_grad]
        weights = [weight(x, k) for k, x in enumerate(outs)]
        found += torch.autograd.grad(outs, wanted, weights, allow_unused=True)
    return found


def compiled(**options):
    torch.compiler.reset()
    return torch.compile(program, backend="opencl", dynamic=DYNAMIC, options=options)


if __name__ == "__main__":
    device, profile = sys.argv[1:] or (DEVICE, PROFILE)
    ours = compiled(device=device, profile=profile)
    for sizes in CALLS:
        pairs = zip(results(ours, sizes), results(program, sizes), strict=True)
        for k, (actual, expected) in enumerate(pairs):
            torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=True)
            print("result", k, "agrees")
