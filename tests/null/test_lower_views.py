"""View lowerings against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import Harness, check

from ocl_inductor.operators.registry import CannotLower

aten = torch.ops.aten


def tensors(*shape: int) -> list[torch.Tensor]:
    """The same numbers contiguous, channels-last-like, and with gaps."""
    plain = torch.randn(shape)
    result = [plain]
    if len(shape) > 1:
        order = [0, *range(2, len(shape)), 1]
        back = [order.index(d) for d in range(len(shape))]
        result.append(plain.permute(order).contiguous().permute(back))
        result.append(torch.randn(*shape[:-1], shape[-1] * 2)[..., ::2])
    return result


CASES: list[tuple[Any, tuple[int, ...], tuple[Any, ...]]] = [
    (aten.view.default, (4, 6), ([2, -1, 3],)),
    (aten.view.default, (2, 3, 4), ([24],)),
    (aten.view.default, (2, 3, 4), ([4, 6],)),
    (aten.view.default, (1,), ([],)),
    (aten.view.default, (0, 3), ([3, 0, 2],)),
    (aten._unsafe_view.default, (2, 1, 6), ([2, 3, 1, 2],)),
    (aten.expand.default, (1, 3), ([4, -1],)),
    (aten.expand.default, (3,), ([2, 1, 3],)),
    (aten.expand.default, (1, 3), ([0, 3],)),
    (aten.permute.default, (2, 3, 4), ([2, 0, -2],)),
    (aten.transpose.int, (2, 3, 4), (-1, 0)),
    (aten.t.default, (2, 3), ()),
    (aten.slice.Tensor, (5, 7), (1, 1, 6, 2)),
    (aten.slice.Tensor, (5, 7), (0, -3, 9223372036854775807)),
    (aten.slice.Tensor, (5, 7), (-1, -100, 100, 3)),
    (aten.slice.Tensor, (5, 7), (0, 4, 2)),
    (aten.slice.Tensor, (5, 7), (0, None, None)),
    (aten.select.int, (5, 7), (1, -2)),
    (aten.select.int, (5,), (0, 3)),
    (aten.split_with_sizes.default, (5, 7), ([2, 0, 5], 1)),
    (aten.split.Tensor, (5, 7), (3, -1)),
    (aten.unbind.int, (3, 2), (0,)),
    (aten.squeeze.default, (1, 3, 1), ()),
    (aten.squeeze.dim, (1, 3, 1), (0,)),
    (aten.squeeze.dim, (2, 3, 1), (0,)),
    (aten.squeeze.dims, (1, 3, 1), ([0, -1, 1],)),
    (aten.unsqueeze.default, (2, 3), (-1,)),
    (aten.unsqueeze.default, (2, 3), (0,)),
    (aten.flip.default, (2, 3, 4), ([0, -1],)),
    (aten.roll.default, (5, 7), ([2, -3], [0, 1])),
    (aten.roll.default, (5, 7), ([2, 2], [0, 0])),
    (aten.roll.default, (5, 7), ([4],)),
    (aten.roll.default, (0, 7), ([4], [0])),
    (aten.unfold.default, (2, 9), (1, 3, 2)),
    (aten.diagonal.default, (3, 5), (1,)),
    (aten.diagonal.default, (2, 3, 5), (-1, 2, 1)),
    (aten.diagonal.default, (3, 5), (7,)),
    (aten.repeat.default, (2, 3), ([2, 1, 3],)),
    (aten.repeat.default, (1, 3), ([3, 0],)),
    (aten.pixel_shuffle.default, (2, 8, 3, 5), (2,)),
    (aten.pixel_unshuffle.default, (2, 3, 4, 6), (2,)),
]


@pytest.mark.parametrize(("op", "shape", "args"), CASES, ids=str)
def test_view(op: Any, shape: tuple[int, ...], args: tuple[Any, ...]) -> None:
    for x in tensors(*shape):
        if "view" in str(op) and not x.is_contiguous():
            harness = Harness()
            result = harness.compute(harness.lower(op, x, *args))
            torch.testing.assert_close(result, x.reshape(args[0]))
            continue
        check(op, x, *args)


@pytest.mark.parametrize("op", [aten.squeeze.default, aten.t.default])
def test_zero_dimensional(op: Any) -> None:
    check(op, torch.tensor(3.0))


def test_as_strided_of_input() -> None:
    x = torch.randn(4, 6)
    check(aten.as_strided.default, x, [3, 2], [1, 6], 2)


def test_as_strided_of_intermediate_needs_its_eager_layout() -> None:
    harness = Harness()
    value = harness.ctx.pointwise(harness.input(torch.randn(4, 6)), (1, 0))
    with pytest.raises(CannotLower, match="eager layout"):
        harness.lower(aten.as_strided.default, value, [24], [1])
