"""Gradients of convolutions on the drivers, in both profiles, against eager and float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, assert_same, compiled, random, two_drivers

aten = torch.ops.aten


@dataclass(frozen=True)
class Conv:
    """The input's and the weight's size, and the arguments of one convolution."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    transposed: bool = False
    extra: tuple[int, ...] = (0,)
    mask: tuple[bool, bool, bool] = (True, True, True)
    channels_last: bool = False

    def arguments(self, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
        x, weight = random(*self.x, dtype=dtype), random(*self.weight, dtype=dtype)
        out = aten.convolution(x, weight, None, *self.rest())
        tensors = [random(*out.shape, dtype=dtype), x, weight]
        if self.channels_last:
            tensors = [t.to(memory_format=torch.channels_last) for t in tensors]
        return tensors

    def rest(self) -> tuple[Any, ...]:
        n = len(self.x) - 2
        wide = [list(v) if len(v) == n else list(v) * n for v in (self.stride, self.padding)]
        wide += [list(v) if len(v) == n else list(v) * n for v in (self.dilation, self.extra)]
        return (*wide[:3], self.transposed, wide[3], self.groups)

    def backward(self, grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
        bias = [grad.shape[1]]
        results = aten.convolution_backward(grad, x, weight, bias, *self.rest(), self.mask)
        return [r for r, asked in zip(results, self.mask, strict=True) if asked]


PLAIN = [
    Conv((2, 3, 9, 11), (5, 3, 3, 3), padding=(1,)),
    Conv((2, 16, 12, 12), (32, 16, 3, 3), padding=(1,), channels_last=True),
    Conv((1, 8, 13, 13), (17, 8, 3, 3), stride=(2,), padding=(1,)),
    Conv((2, 8, 14, 13), (16, 8, 1, 1), stride=(2,)),
    Conv((2, 8, 14, 13), (16, 8, 1, 1), stride=(2, 3), padding=(1, 2)),
    Conv((2, 8, 7, 7), (16, 8, 1, 1)),
    Conv((1, 3, 32, 32), (8, 3, 7, 7), stride=(2,), padding=(3,), mask=(False, True, False)),
    Conv((1, 3, 16, 16), (8, 3, 4, 4), stride=(4,)),
    Conv((2, 4, 15, 10), (6, 4, 3, 2), stride=(3, 1), padding=(0, 2), dilation=(2, 3)),
    Conv((2, 4, 9, 9), (6, 4, 1, 3), padding=(2, 0)),  # padding wider than the kernel
    Conv((2, 6, 17), (4, 6, 5), stride=(2,), padding=(2,)),
    Conv((2, 6, 17), (4, 6, 3), padding=(1,), dilation=(2,)),
    Conv((1, 3, 5, 6, 7), (4, 3, 3, 2, 3), stride=(2, 1, 1), padding=(1, 0, 1)),
    Conv((1, 1, 1, 1), (1, 1, 1, 1)),
    Conv((1, 2, 3, 3), (3, 2, 3, 3), mask=(True, False, True)),
    Conv((0, 3, 9, 11), (5, 3, 3, 3), padding=(1,)),
]

#: Only the weight's gradient: edges of tiles, several parts, chains that are cut, joined taps.
WEIGHT_ONLY = [
    Conv((2, 20, 12, 13), (36, 20, 3, 2), (2, 1), (1, 0), (1, 2), mask=(False, True, False)),
    Conv((1, 33, 60, 60), (18, 33, 3, 3), padding=(1,), mask=(False, True, False)),
    Conv((3, 17, 900), (19, 17, 5), padding=(2,), mask=(False, True, False)),
    Conv((2, 3, 40, 21), (65, 3, 7, 7), (2,), (3,), mask=(False, True, False)),
    Conv((1, 24, 8, 8), (72, 8, 3, 3), padding=(1,), groups=3, mask=(False, True, False)),
]

GROUPED = [
    Conv((2, 8, 9, 9), (12, 2, 3, 3), padding=(1,), groups=4),
    Conv((2, 8, 9, 9), (12, 4, 3, 3), stride=(2,), padding=(1,), groups=2),
    Conv((2, 8, 9, 10), (8, 1, 3, 3), padding=(1,), groups=8),
    Conv((2, 8, 9, 10), (8, 1, 3, 3), stride=(2,), padding=(1,), groups=8),
    Conv((1, 8, 15, 16), (8, 1, 5, 5), stride=(2, 3), padding=(2,), groups=8),
    Conv((1, 7, 15, 16), (7, 1, 3, 3), stride=(2,), padding=(2,), dilation=(2,), groups=7),
    Conv((1, 4, 11, 11), (8, 1, 3, 3), stride=(2,), padding=(1,), groups=4),
    Conv((1, 4, 11, 11), (8, 1, 3, 3), padding=(1,), groups=4),
    Conv((1, 6, 12, 12), (6, 1, 7, 7), padding=(3,), groups=6, channels_last=True),
    Conv((2, 6, 20), (6, 1, 3), padding=(1,), groups=6),
]

TRANSPOSED = [
    Conv((2, 6, 7, 8), (6, 4, 2, 2), stride=(2,), transposed=True),
    Conv((2, 6, 7, 8), (6, 4, 3, 3), stride=(2,), padding=(1,), extra=(1,), transposed=True),
    Conv((2, 6, 7, 8), (6, 4, 3, 3), padding=(1,), transposed=True),
    Conv((1, 4, 5, 5), (4, 3, 3, 3), dilation=(2,), extra=(1,), transposed=True),
    Conv((2, 6, 7, 8), (6, 2, 3, 3), stride=(2,), groups=3, transposed=True),
    Conv((2, 6, 7, 8), (6, 1, 3, 3), stride=(2,), padding=(1,), groups=6, transposed=True),
    Conv((1, 4, 5, 5), (4, 3, 3, 3), padding=(3,), transposed=True),
    Conv((2, 3, 9), (3, 4, 4), stride=(2,), padding=(1,), transposed=True),
]

#: Sums over many pixels are taken in pieces.
LONG = [
    Conv((4, 4, 40, 64), (8, 4, 3, 3), padding=(1,)),
    Conv((3, 8, 61, 59), (8, 1, 3, 3), padding=(1,), groups=8),
    Conv((1, 5, 131, 127), (3, 5, 1, 1)),
    Conv((2, 96, 10, 10), (160, 96, 3, 3), padding=(1,)),
]

FAMILIES = {
    "plain": PLAIN,
    "weights": WEIGHT_ONLY,
    "grouped": GROUPED,
    "transposed": TRANSPOSED,
    "long": LONG,
}


def run_all(convs: list[Conv], *tensors: torch.Tensor) -> list[Any]:
    """The gradients of every convolution, each of which has three of the tensors."""
    return [c.backward(*tensors[3 * i : 3 * i + 3]) for i, c in enumerate(convs)]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(
    "family",
    [*list(FAMILIES)[:2], *(pytest.param(f, marks=pytest.mark.slow) for f in list(FAMILIES)[2:])],
)
def test_agrees_with_eager(family: str, driver: str, profile: str) -> None:
    convs = FAMILIES[family]
    tensors = [t for c in convs for t in c.arguments()]
    # Eager's own sums of 10 797 numbers were up to 8e-4 from float64.
    atol = 2e-3 if family == "long" else None
    agree(
        lambda *t: run_all(convs, *t), *tensors, device=driver, profile=profile,
        rtol=atol and 1e-5, atol=atol,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("driver", two_drivers())
def test_dtypes(driver: str, dtype: torch.dtype) -> None:
    convs = [PLAIN[0], GROUPED[3]]
    tensors = [t for c in convs for t in c.arguments(dtype)]
    agree(lambda *t: run_all(convs, *t), *tensors, device=driver)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
def test_symbolic_batch_and_image(driver: str, profile: str) -> None:
    conv = torch.nn.Conv2d(3, 5, 3, stride=2, padding=1)
    function = compiled(conv, driver, dynamic=True, profile=profile, fallback="error")

    def gradients(call: Any, x: torch.Tensor) -> list[torch.Tensor]:
        x = x.clone().requires_grad_()
        return list(torch.autograd.grad(call(x).square().sum(), [x, *conv.parameters()]))

    for size in ((2, 3, 9, 11), (3, 3, 12, 7), (5, 3, 40, 33)):
        x = random(*size)
        assert_same(gradients(function, x), gradients(conv, x))


@pytest.mark.parametrize("driver", two_drivers())
def test_infinities_and_nans_arrive_where_eager_puts_them(driver: str) -> None:
    conv = PLAIN[0]
    tensors = conv.arguments()
    tensors[0][0, 1, 2, 3] = float("inf")
    tensors[1][1, 2, 5, 5] = float("nan")
    agree(conv.backward, *tensors, device=driver)
