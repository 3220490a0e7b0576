"""Structural operators on every driver, in both profiles; details are in ``tests/null``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from operators import Case, case, check_cases

from ocl_inductor.device.device import Device
from ocl_inductor.settings import Settings

aten = torch.ops.aten


def nhwc(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


def ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


def with_nan(x: torch.Tensor) -> torch.Tensor:
    x.view(-1)[3] = float("nan")
    return x


def views() -> list[Case]:
    x = torch.randn(6, 10, 12)
    y = torch.randn(2, 8, 6, 5)
    return [
        case(aten.slice.Tensor, x, 1, -7, 9, 2),
        case(aten.permute.default, x, [2, 0, 1]),
        case(aten.flip.default, x, [0, 2]),
        case(aten.roll.default, x, [3, -2], [1, 2]),
        case(aten.expand.default, x[:1], [4, -1, -1]),
        case(aten.unfold.default, x, 2, 5, 3),
        case(aten.diagonal.default, x, 1, 1, 2),
        case(aten.repeat.default, x, [1, 2, 3]),
        case(aten.pixel_shuffle.default, y, 2),
        case(aten.pixel_unshuffle.default, y[:, :, :, :4], 2),
        case(aten.view.default, x, [20, 36]),
        case(aten.split_with_sizes.default, x, [3, 0, 7], 1),
    ]


def joins() -> list[Case]:
    parts = [torch.randn(3, n, 4) for n in (5, 1, 8)]
    x = torch.randn(2, 3, 7, 9)
    return [
        case(aten.cat.default, parts, 1),
        case(aten.cat.default, [nhwc(x), x], 1),
        case(aten.cat.default, [p[:1, :1] for p in parts] * 15, 2),
        case(aten.stack.default, [parts[0], parts[0] * 2], -1),
        case(aten.constant_pad_nd.default, x, [1, 2, 0, 3], 1.5),
        case(aten.constant_pad_nd.default, x > 0, [-1, 2], True),
        case(aten.reflection_pad2d.default, x, [2, 3, 1, 4]),
        case(aten.replication_pad2d.default, nhwc(x), [2, 3, 1, 4]),
        case(aten.slice_scatter.default, x, torch.randn(2, 3, 3, 9), 2, 1, 7, 2),
        case(aten.select_scatter.default, x, torch.randn(2, 3, 9), 2, 4),
        case(aten.diagonal_scatter.default, x[0], torch.randn(9, 3), 1, 0, 1),
    ]


def reductions() -> list[Case]:
    x, y = torch.randn(5, 17, 33), nhwc(torch.randn(2, 16, 9, 11))
    integers = ints(9, 5, 17, 33)
    return [
        case(aten.sum.dim_IntList, x, [-1]),
        case(aten.sum.dim_IntList, x, [0, 2]),
        case(aten.sum.dim_IntList, y, [2, 3], True),
        case(aten.sum.default, integers),
        case(aten.sum.default, torch.rand(300_000), rtol=1e-4),
        case(aten.mean.dim, y, [2, 3]),
        case(aten.mean.dim, x.half(), [1], rtol=2e-3, atol=2e-3),
        case(aten.prod.dim_int, integers, 0),
        case(aten.amax.default, with_nan(x.clone()), [1]),
        case(aten.amin.default, y, [0, 1]),
        case(aten.max.dim, integers, 2),
        case(aten.argmin.default, with_nan(x.clone())),
        case(aten.any.dim, x > 2, 0),
        case(aten.all.default, x > -9),
        case(aten.var.correction, x + 100, [1, 2], rtol=1e-4),
        case(aten.std_mean.correction, y, [0, 2, 3], rtol=1e-4),
        case(aten.linalg_vector_norm.default, x, 2, [0]),
        case(aten.logsumexp.default, x, [2]),
        case(aten._softmax.default, x, -1, False),
        case(aten._softmax.default, x, 0, False),
        case(aten._log_softmax.default, x, 1, False),
        case(aten.sum.default, torch.empty(0, 3)),
    ]


def norms() -> list[Case]:
    x, y = torch.randn(6, 50) + 3, nhwc(torch.randn(2, 8, 7, 9))
    w, b, var = torch.randn(8), torch.randn(8), torch.rand(8) + 0.5
    close = {"rtol": 1e-4, "atol": 1e-4}
    return [
        case(aten.native_layer_norm.default, x, [50], x[0], x[1], 1e-5, **close),
        case(aten.native_group_norm.default, y, w, b, 2, 8, 63, 4, 1e-5, **close),
        case(aten._native_batch_norm_legit_no_training.default,
             y, w, b, w, var, 0.1, 1e-5, **close),
        case(aten._native_batch_norm_legit_functional.default,
             y, w, b, w, var, True, 0.1, 1e-5, **close),
        case(aten._fused_rms_norm.default, x, [50], None, 1e-6, **close),
    ]  # fmt: skip


def indexing() -> list[Case]:
    x = torch.randn(7, 9, 10)
    return [
        case(aten.embedding.default, x[:, :, 0], ints(7, 3, 5)),
        case(aten.embedding.default, x[0].bfloat16(), ints(9, 40).int()),
        case(aten.index_select.default, x, 1, ints(9, 13)),
        case(aten.gather.default, x, 2, ints(10, 7, 4, 3)),
        case(aten.index.Tensor, x, [None, ints(9, 4, 1) - 9, ints(10, 6)]),
        case(aten.index.Tensor, x > 0, [ints(7, 5), None, ints(10, 5)]),
        case(aten.take.default, x, ints(630, 11) - 300),
        case(aten.one_hot.default, ints(5, 3, 4), 5),
        case(aten.scatter.value, x, 1, ints(9, 7, 3, 10), 4.0),
        case(aten.scatter_add.default, x, 0, ints(7, 30, 9, 10), torch.randn(30, 9, 10)),
        case(aten.scatter_reduce.two, x, 2, ints(10, 7, 9, 30), torch.randn(7, 9, 30), "amax"),
        case(aten.index_add.default, x, 0, ints(7, 20), torch.randn(20, 9, 10)),
        case(aten.index_put.default, x, [ints(7, 40), None, ints(10, 40)],
             torch.randn(40, 9), True),
        case(aten.index_fill.int_Scalar, x, 1, ints(9, 3), 2),
    ]  # fmt: skip


def pooling() -> list[Case]:
    x = torch.randn(2, 9, 13, 16)
    out, where = aten.max_pool2d_with_indices.default(x, [3, 3], [2, 2], [1, 1])
    pool, back = aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward
    wide = ([7, 7], [1, 1], [3, 3], [1, 1], False)  # 49 windows an element: a loop
    positions = pool.default(x, *wide)[1]
    return [
        case(pool.default, with_nan(x.clone()), [3, 3], [2, 2], [1, 1]),
        case(pool.default, nhwc(x), [3, 2], [2, 1], [1, 0], [1, 2], True),
        case(pool.default, x, [7, 7], [2, 2], [3, 3]),
        case(back.default, torch.randn_like(out), x, [3, 3], [2, 2], [1, 1], [1, 1], False, where),
        case(back.default, torch.randn_like(x), x, *wide, positions),
        case(back.default, nhwc(torch.randn_like(x)), nhwc(x), *wide, nhwc(positions)),
        case(aten.avg_pool2d.default, nhwc(x), [3, 3], [2, 2], [1, 1], True, False),
        case(aten.avg_pool2d.default, x, [7, 6], [3, 1], [3, 2]),
        case(aten.avg_pool2d_backward.default, x[..., :6, :8], x, [2, 2], [], [0], False, True,
             None),
        case(aten._adaptive_avg_pool2d.default, nhwc(x), [5, 20]),
        case(aten._adaptive_avg_pool2d_backward.default, torch.randn(2, 9, 5, 20), x),
        case(aten.max_pool3d_with_indices.default, x, [2, 3, 2]),
    ]  # fmt: skip


def resizing() -> list[Case]:
    x = torch.randn(2, 3, 7, 9)
    return [
        case(aten.upsample_nearest2d.default, nhwc(x), [14, 18]),
        case(aten.upsample_nearest2d.default, x, [5, 20]),
        case(aten._upsample_nearest_exact2d.default, x, [15, 4]),
        case(aten.upsample_bilinear2d.default, nhwc(x), [14, 18], False),
        case(aten.upsample_bilinear2d.default, x, [20, 5], True),
        case(aten.upsample_bicubic2d.default, x, [10, 11], False, rtol=1e-4, atol=1e-4),
    ]


def scans() -> list[Case]:
    x = torch.randn(5, 40, 6)
    return [
        case(aten.cumsum.default, x, 1, rtol=1e-4),
        case(aten.cumsum.default, x > 0, -1),
        case(aten.cumprod.default, x, 0),
        case(aten.cummax.default, with_nan(x.clone()), 1),
    ]


FAMILIES: list[Callable[[], list[Case]]] = [
    views, joins, reductions, norms, indexing, pooling, resizing, scans,
]  # fmt: skip


@pytest.mark.parametrize("profile", ["vector", "simt"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_family(device: Device, profile: str, family: Callable[[], list[Case]]) -> None:
    torch.manual_seed(0)
    settings = Settings.resolve(None, {"profile": profile, "fallback": "error"})
    check_cases(device, settings, family())
