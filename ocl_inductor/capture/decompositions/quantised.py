"""Quantised operators in terms of simpler ones, which fuse with what is around them.

``quantized_decomposed.*`` are the operators of PyTorch's export quantisation: integers and their
scales as plain tensors. Their library exists only where its module has been imported, so its table
is built when a graph is captured. Formulas: ``torch.ao.quantization.fx._decomposed``, which is
what eager runs; those that read a number from a tensor there take the tensor here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ocl_inductor.operators.require import ops

aten = torch.ops.aten

_MODULE = "torch.ao.quantization.fx._decomposed"

#: PyTorch's own functions that read no number from a tensor, used directly.
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
    """``x`` after a round trip through integers; the mask of values within the range."""
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
    x: Tensor, inverse: object, scale: object, zero_point: object, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    wide = x if x.dtype is torch.float64 else x.to(torch.float32)
    q = torch.round(wide * inverse) + zero_point
    mask = (q >= quant_min) & (q <= quant_max)
    # As with C's fmax, NaN becomes the smallest integer.
    kept = torch.where(q >= quant_min, q.clamp(max=quant_max), float(quant_min))
    return ((kept - zero_point) * scale).to(x.dtype), mask


def fake_quantize_per_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """A scale and zero point for each index of dimension ``axis``; out of range it is refused."""
    if scale.dtype is not torch.float32 or zero_point.dtype.is_floating_point:
        return NotImplemented
    inside = (zero_point >= quant_min) & (zero_point <= quant_max)
    zero_point = ops.require(zero_point, inside, _ZERO_POINT_OUTSIDE)
    return _fake_per_channel(x, scale, zero_point, axis, quant_min, quant_max)


_ZERO_POINT_OUTSIDE = "`zero_point` must be between `quant_min` and `quant_max`."


def _fake_per_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    shape = [-1 if d == axis % x.ndim else 1 for d in range(x.ndim)]
    scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    wide = x if x.dtype is torch.float64 else x.to(torch.float32)
    # Eager converts to int64 here: values out of its range become its smallest number.
    q = (torch.round(wide * (1.0 / scale)) + zero_point).to(torch.int64)
    mask = (q >= quant_min) & (q <= quant_max)
    kept = (q.clamp(quant_min, quant_max) - zero_point).to(wide.dtype)
    return (kept * scale).to(x.dtype), mask


# -- quantisation-aware training: observe, then quantise ----------------------------------------

#: No scale is smaller: about the smallest float16 that is not subnormal.
_SMALLEST_SCALE = float(np.float32(6.1e-5))


def observe_and_fake_quantize(
    x: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[Tensor, ...]:
    """One call of ``torch.ao.quantization.FusedMovingAvgObsFakeQuantize``.

    Moving averages of the extremes of ``x``, the scale and zero point that cover them, and ``x``
    after a round trip through integers: of the whole tensor or of each index of ``ch_axis``.
    Returns the result, the mask of values within the range, and the four updated statistics.
    """
    channels = x.shape[ch_axis] if per_row_fake_quant else 1
    state = (running_min, running_max, scale)
    if (
        x.dtype is not torch.float32
        or any(t.dtype is not torch.float32 or t.numel() != channels for t in state)
        or zero_point.numel() != channels
    ):
        return NotImplemented  # type: ignore[return-value]
    if per_row_fake_quant:
        least, most = torch.aminmax(x.movedim(ch_axis, 0).reshape(channels, -1), dim=1)
    else:
        least, most = torch.aminmax(x)
    observed, on = observer_on.reshape(()) != 0, fake_quant_on.reshape(()) != 0

    def moved(running: Tensor, new: Tensor) -> Tensor:
        new = new.reshape(running.shape)
        mean = running + float(np.float32(averaging_const)) * (new - running)
        return torch.where(observed, torch.where(running.isinf(), new, mean), running)

    running_min, running_max = moved(running_min, least), moved(running_max, most)
    chosen, zero = _covering(running_min, running_max, quant_min, quant_max, symmetric_quant)
    scale = torch.where(on, chosen.reshape(scale.shape), scale)
    zero_point = torch.where(on, zero.reshape(zero_point.shape).to(zero_point.dtype), zero_point)
    if per_row_fake_quant:
        inside = (zero_point >= quant_min) & (zero_point <= quant_max) | ~on
        zero_point = ops.require(zero_point, inside, _ZERO_POINT_OUTSIDE)
        made = _fake_per_channel(x, scale, zero_point, ch_axis, quant_min, quant_max)
        result, mask = torch.where(on, made[0], x), made[1] | ~on
    else:
        result, mask = fake_quantize_per_tensor_qparams(
            x, scale, zero_point, fake_quant_on, quant_min, quant_max
        )
    return result, mask, running_min, running_max, scale, zero_point


def _covering(
    low: Tensor, high: Tensor, quant_min: int, quant_max: int, symmetric: bool
) -> tuple[Tensor, Tensor]:
    """The scale and zero point with which integers cover ``low`` to ``high`` and 0.

    As ATen's ``quant_utils::ChooseQuantizationParams``, digit for digit: extremes are float32 and
    what is computed from them float64.
    """
    across = (low < 0) & (high > 0)
    steps = quant_max - quant_min
    if symmetric:
        below, above = -(steps // 2 + 1), steps // 2
        unit = torch.maximum((low / below).abs(), (high / above).abs()).double()
        low = torch.where(across, (unit * below).float(), low)
        high = torch.where(across, (unit * above).float(), high)
    low, high = low.clamp(max=0), high.clamp(min=0)
    scale = (high.double() - low.double()) / steps
    scale = torch.where((1 / scale.float()).isinf(), 0.1, scale)
    wider = _SMALLEST_SCALE / scale.float()
    small, whole = scale < _SMALLEST_SCALE, float(np.float32(_SMALLEST_SCALE) * np.float32(steps))
    low, high = (
        torch.where(small, torch.where(high == 0, -whole, low * wider), low),
        torch.where(small, torch.where(low == 0, whole, high * wider), high),
    )
    scale = scale.clamp(min=_SMALLEST_SCALE)
    downwards, upwards = low.double() / scale, high.double() / scale
    nearer = abs(quant_min) - downwards.abs() < abs(quant_max) - upwards.abs()
    zero = torch.where(nearer, quant_min - downwards, quant_max - upwards)
    if symmetric:
        zero = torch.where(across, (quant_min + quant_max) / 2, zero)
    return scale.float(), zero.clamp(quant_min, quant_max).round()


#: Always in the table.
FAKE_QUANTISATION: dict[torch._ops.OpOverload, Callable[..., object]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantize_per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: (
        fake_quantize_per_tensor_qparams
    ),
    aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantize_per_channel,
    aten._fused_moving_avg_obs_fq_helper_functional.default: observe_and_fake_quantize,
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
    """Whether the module that defines ``quantized_decomposed`` has been imported."""
    return _MODULE in sys.modules


def export_quantisation() -> dict[object, Callable[..., object]]:
    """Decompositions of ``quantized_decomposed``, once its operators exist."""
    module, ops = sys.modules[_MODULE], torch.ops.quantized_decomposed
    table: dict[object, Callable[..., object]] = {
        ops.quantize_per_tensor.tensor: quantize_by_tensors,
        ops.dequantize_per_tensor.tensor: dequantize_by_tensors,
        ops.choose_qparams.tensor: choose_qparams,
        ops.choose_qparams_symmetric.tensor: choose_qparams_symmetric,
        ops.quantize_per_channel_group.default: quantize_per_channel_group,
        ops.convert_element_type.no_fuse: lambda x, dtype: x.to(dtype),
    }
    return table | {getattr(ops, name).default: getattr(module, name) for name in _AS_THEY_ARE}
