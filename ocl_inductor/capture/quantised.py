"""Quantised operators in terms of simpler ones, which fuse with what is around them.

``quantized_decomposed.*`` are the operators of PyTorch's export quantisation: integers and their
scales as plain tensors. Their library exists only where its module has been imported, so its table
is asked for when a graph is captured. Formulas: ``torch.ao.quantization.fx._decomposed``, which is
what eager runs; those that read a number from a tensor there take the tensor here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

aten = torch.ops.aten

_MODULE = "torch.ao.quantization.fx._decomposed"

#: Written as one sees them, without a number that is read from a tensor: PyTorch's own functions.
_AS_THEY_ARE = (
    "quantize_per_tensor",
    "dequantize_per_tensor",
    "quantize_per_channel",
    "dequantize_per_channel",
    "choose_qparams_per_token",
    "choose_qparams_per_token_asymmetric",
    "quantize_per_token",
    "dequantize_per_token",
    "dequantize_per_channel_group",
)


# -- aten's fake quantisation, with the mask that its gradient needs ---------------------------


def fake_quantize_per_tensor(
    x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """What is left of ``x`` after a round trip through integers; where it was within the range."""
    single = np.float32(scale)
    inverse = float(np.float32(1) / single)
    return _fake(x, inverse, float(single), zero_point, quant_min, quant_max)


def fake_quantize_per_tensor_qparams(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    fake_quant_enabled: Tensor,
    quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:
    """As above with tensors of one element; ``x`` itself where ``fake_quant_enabled`` is 0."""
    if scale.dtype is not torch.float32:
        return NotImplemented
    scale, zero_point = scale.reshape(()), zero_point.reshape(()).to(torch.float32)
    out, mask = _fake(x, 1.0 / scale, scale, zero_point, quant_min, quant_max)
    on = fake_quant_enabled.reshape(()) != 0
    return torch.where(on, out, x), mask | ~on


def _fake(
    x: Tensor, inverse: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    wide = x if x.dtype is torch.float64 else x.to(torch.float32)
    q = torch.round(wide * inverse) + zero_point
    mask = (q >= quant_min) & (q <= quant_max)
    # As C's fmax does it, NaN becomes the smallest integer.
    kept = torch.where(q >= quant_min, q.clamp(max=quant_max), float(quant_min))
    return ((kept - zero_point) * scale).to(x.dtype), mask


def fake_quantize_per_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """A scale and zero point for each index of dimension ``axis``."""
    if scale.dtype is not torch.float32 or zero_point.dtype.is_floating_point:
        return NotImplemented
    shape = [-1 if d == axis % x.ndim else 1 for d in range(x.ndim)]
    scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    wide = x if x.dtype is torch.float64 else x.to(torch.float32)
    # Eager goes through int64 here: what that cannot hold becomes its smallest number.
    q = (torch.round(wide * (1.0 / scale)) + zero_point).to(torch.int64)
    mask = (q >= quant_min) & (q <= quant_max)
    kept = (q.clamp(quant_min, quant_max) - zero_point).to(wide.dtype)
    return (kept * scale).to(x.dtype), mask


#: In the table always.
FAKE_QUANTISATION: dict[Any, Callable[..., Any]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantize_per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: (
        fake_quantize_per_tensor_qparams
    ),
    aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantize_per_channel,
}


# -- quantized_decomposed ------------------------------------------------------------------


def _one(x: Tensor) -> Tensor:
    return x.reshape(())


def quantize_by_tensors(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    """Scale and zero point from tensors of one element; the quotient is rounded once, as there."""
    inverse = (1.0 / _one(scale)).to(torch.float32)
    q = torch.round(x.to(torch.float32) * inverse) + _one(zero_point).to(torch.float32)
    return q.clamp(quant_min, quant_max).to(dtype)


def dequantize_by_tensors(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    out_dtype = out_dtype or torch.float32
    return (x.to(out_dtype) - _one(zero_point).to(out_dtype)) * _one(scale).to(out_dtype)


def choose_qparams(
    x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Scale (float64) and zero point (int64), one element each, that cover all of ``x`` and 0."""
    low, high = torch.aminmax(x)
    low, high = low.clamp(max=0), high.clamp(min=0)
    scale = _at_least((high - low) / float(quant_max - quant_min), eps)
    zero_point = quant_min - torch.round(low / scale).to(torch.int32)
    zero_point = zero_point.clamp(quant_min, quant_max)
    return scale.to(torch.float64), zero_point.to(torch.int64)


def choose_qparams_symmetric(
    x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """As above; 0 lies in the middle of the integers."""
    low, high = torch.aminmax(x)
    largest = torch.maximum(-low.clamp(max=0), high.clamp(min=0))
    scale = _at_least(largest / (float(quant_max - quant_min) / 2), eps)
    middle = 128 if dtype is torch.uint8 else 0
    return scale.to(torch.float64), scale.new_full((1,), middle, dtype=torch.int64)


def _at_least(scale: Tensor, eps: float) -> Tensor:
    # Of one element and in float32 at least, by promotion with eager's tensor for eps.
    return scale.to(torch.float32).clamp(min=eps).reshape(1)


def quantize_per_channel_group(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int = 128,
) -> Tensor:
    """(m, n) with a scale for each ``group_size`` numbers of a row. Raises for NaN, as there."""
    if group_size > x.shape[-1] and scales.shape[-1] == 1:
        group_size = x.shape[-1]
    torch._assert_async(~torch.isnan(x).any(), "to_quant must not contain NaNs")
    grouped = x.reshape(-1, group_size) * (1.0 / scales.reshape(-1, 1))
    q = torch.round(grouped + zero_points.reshape(-1, 1))
    return q.clamp(quant_min, quant_max).to(dtype).reshape(x.shape)


def exported_operators_exist() -> bool:
    """Whether the module that makes ``quantized_decomposed`` has been imported."""
    return _MODULE in sys.modules


def export_quantisation() -> dict[Any, Callable[..., Any]]:
    """Decompositions of ``quantized_decomposed``, once its operators exist."""
    module, ops = sys.modules[_MODULE], torch.ops.quantized_decomposed
    table: dict[Any, Callable[..., Any]] = {
        ops.quantize_per_tensor.tensor: quantize_by_tensors,
        ops.dequantize_per_tensor.tensor: dequantize_by_tensors,
        ops.choose_qparams.tensor: choose_qparams,
        ops.choose_qparams_symmetric.tensor: choose_qparams_symmetric,
        ops.quantize_per_channel_group.default: quantize_per_channel_group,
        ops.convert_element_type.no_fuse: lambda x, dtype: x.to(dtype),
    }
    return table | {getattr(ops, name).default: getattr(module, name) for name in _AS_THEY_ARE}
