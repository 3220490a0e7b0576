"""Reductions leave no part of a large GPU idle: of a described one, whose launches are counted."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers
from torch.nn import functional as F

from ocl_inductor.plan.plan import Launch, Plan

one_driver = pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
TARGET = "h200"
UNITS, LANES = 132, 32
#: Bytes that one compute unit should not have to move alone.
MUCH = 1 << 20


def launches(plans: list[Plan]) -> list[tuple[Launch, str]]:
    return [
        (s, plan.kernels[s.kernel].source)
        for plan in plans
        for s in plan.steps
        if isinstance(s, Launch)
    ]


def items(step: Launch) -> int:
    return math.prod(int(n) for n in step.global_size)


def channels_last(*size: int) -> torch.Tensor:
    return random(*size).to(memory_format=torch.channels_last)


@one_driver
@pytest.mark.parametrize("channels", [16, 24, 96])
def test_few_columns_of_many_rows(channels: int, driver: str, plans: list[Plan]) -> None:
    """Batch norm's statistics and gradients of a few channels keep every compute unit busy."""

    def fn(x: Any, grad: Any) -> Any:
        mean = x.mean((0, 2, 3), keepdim=True)
        var = (x - mean).square().mean((0, 2, 3), keepdim=True)
        return var.flatten(), grad.sum((0, 2, 3)), (grad * (x - mean)).sum((0, 2, 3))

    size = (4, channels, 56, 56)
    x, grad = channels_last(*size), channels_last(*size)
    agree(fn, x, grad, device=driver, target=TARGET, rtol=1e-4, atol=1e-2)
    large = [s for s, _ in launches(plans) if int(s.bytes) >= MUCH]
    assert large
    assert min(items(s) for s in large) >= UNITS * LANES


@one_driver
def test_short_columns_are_read_by_sectors(driver: str, plans: list[Plan]) -> None:
    """One launch, with as many work-groups as there are sectors in a row."""
    rows, columns = 3136, 256
    agree(lambda x: x.sum(0), random(rows, columns), device=driver, target=TARGET,
          rtol=1e-4, atol=1e-3)  # fmt: skip
    ((step, _),) = launches(plans)
    assert step.local_size is not None
    assert items(step) // step.local_size[0] == columns * 4 // 32


@one_driver
@pytest.mark.parametrize(
    "size,weight,stride",
    [((4, 32, 40, 40), 3, 1), ((3, 20, 45, 31), 3, 2), ((2, 8, 50, 51), 2, 1),
     ((2, 8, 40, 41), 5, 2), ((1, 6, 7, 9), 3, 1)],
)  # fmt: skip
def test_weight_gradient_of_a_depthwise_convolution(
    size: tuple[int, ...], weight: int, stride: int, driver: str, plans: list[Plan]
) -> None:
    channels = size[1]
    x, w = channels_last(*size), random(channels, 1, weight, weight)
    grad = channels_last(*F.conv2d(x, w, None, stride, 1, 1, channels).shape)

    def fn(grad: Any, x: Any, w: Any) -> Any:
        mask = [False, True, False]
        rest = [[stride] * 2, [1, 1], [1, 1], False, [0, 0], channels, mask]
        return torch.ops.aten.convolution_backward(grad, x, w, None, *rest)[1]

    agree(fn, grad, x, w, device=driver, target=TARGET, rtol=1e-4, atol=1e-3)
    taps = weight * weight
    if taps > 9:
        return
    # All taps in one kernel, whose work-items read a window for all of them; then their sums.
    first, second = launches(plans)
    assert len(set(re.findall(r"\bacc_arg\d+\b", first[1]))) == taps
    assert second[0].local_size is not None
