"""Normalisation lowerings against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import check

from ocl_inductor.ir.nodes import Loop

aten = torch.ops.aten


def images(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    x = torch.randn(shape, dtype=dtype) * 3 + 5
    result = [x]
    if x.ndim == 4:
        result.append(x.to(memory_format=torch.channels_last))
    return result


@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 1, 5), (4, 7)])
@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm(shape: tuple[int, ...], axes: int) -> None:
    x = torch.randn(shape) * 2 + 30
    normalized = list(shape[-axes:])
    weight, bias = torch.randn(normalized), torch.randn(normalized)
    for w, b in ((weight, bias), (None, None), (weight, None), (None, bias)):
        check(aten.native_layer_norm.default, x, normalized, w, b, 1e-5, rtol=1e-4, atol=1e-4)
    y = x.transpose(0, 1).contiguous().transpose(0, 1)
    check(aten.native_layer_norm.default, y, normalized, weight, bias, 1e-5, rtol=1e-4, atol=1e-4)


def test_layer_norm_of_half() -> None:
    x = torch.randn(2, 300, dtype=torch.bfloat16)
    w = torch.randn(300, dtype=torch.bfloat16)
    check(aten.native_layer_norm.default, x, [300], w, w, 1e-5, rtol=2e-2, atol=2e-2)


def test_large_mean_keeps_its_digits() -> None:
    x = torch.randn(2, 64) + 1e4
    check(aten.native_layer_norm.default, x, [64], None, None, 1e-5, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (1, 6, 1, 1), (2, 6), (2, 6, 3)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(shape: tuple[int, ...], groups: int) -> None:
    spatial = torch.Size(shape[2:]).numel()
    w, b = torch.randn(6), torch.randn(6)
    for x in images(*shape):
        args = (shape[0], 6, spatial, groups, 1e-5)
        check(aten.native_group_norm.default, x, w, b, *args, rtol=1e-4, atol=2e-3)
        check(aten.native_group_norm.default, x, None, None, *args, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (3, 6), (0, 6, 2, 2)])
def test_batch_norm_eval(shape: tuple[int, ...]) -> None:
    w, b, mean, var = torch.randn(6), torch.randn(6), torch.randn(6), torch.rand(6) + 0.5
    op = aten._native_batch_norm_legit_no_training.default
    for x in images(*shape):
        check(op, x, w, b, mean, var, 0.1, 1e-5, rtol=1e-4, atol=1e-4)
        harness = check(op, x, None, None, mean, var, 0.1, 1e-5, rtol=1e-4, atol=1e-4)
        sizes = [n.buffer.size for n in harness.ctx.nodes if isinstance(n, Loop)]
        assert sizes == [(6,), (6,)], "only the per-channel vectors go to memory"


@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (3, 6), (2, 6, 7)])
def test_batch_norm_train(shape: tuple[int, ...]) -> None:
    w, b, mean, var = torch.randn(6), torch.randn(6), torch.randn(6), torch.rand(6) + 0.5
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
    functional = aten._native_batch_norm_legit_functional.default
    for x in images(*shape):
        check(functional, x, w, b, mean, var, True, 0.1, 1e-5, **close)
        check(functional, x, None, None, mean, var, True, 0.3, 1e-5, **close)
        check(aten._native_batch_norm_legit.no_stats, x, w, b, True, 0.1, 1e-5, **close)


def test_rms_norm() -> None:
    x, w = torch.randn(2, 3, 8), torch.randn(8)
    check(aten._fused_rms_norm.default, x, [8], w, 1e-6, rtol=1e-4)
    check(aten._fused_rms_norm.default, x, [8], None, None, rtol=1e-4)
    check(aten._fused_rms_norm.default, x, [3, 8], None, None, rtol=1e-4)
