"""Normalisation layers, always in two passes: mean first, then the mean squared deviation.

The row reductions of one layer run over the same rows and the scheduler fuses them, so that two
passes cost one trip to memory. Half types compute in float32 and round once at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, cast, const, op
from ocl_inductor.ir.index import Size, as_size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, from_sums, full, reused, size_expr
from ocl_inductor.lowering.core.values import ZERO, Value, expand, reindex
from ocl_inductor.lowering.norms.moments import moments
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, keep_dims, mean_of, without
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def _require_float(x: Value) -> torch.dtype:
    if not x.dtype.is_floating_point:
        raise CannotLower(f"normalisation of {x.dtype}")
    return accumulation_dtype(x.dtype)


def _inverse_deviation(ctx: LoweringContext, var: Value, eps: float) -> Value:
    """``rsqrt(var + eps)`` in memory: one element a row, read by every element of it."""
    shifted = op("add", var.body, const(eps, var.dtype))
    return ctx.realize(Value(var.size, var.dtype, op("rsqrt", shifted)))


def _affine(body: Expr, weight: Expr | None, bias: Expr | None) -> Expr:
    if weight is not None:
        body = op("mul", body, cast(weight, body.dtype))
    if bias is not None:
        body = op("add", body, cast(bias, body.dtype))
    return body


def _at(value: Value | None, index: Sequence[sympy.Expr]) -> Expr | None:
    return None if value is None else value.at(index)


@register(aten.native_layer_norm.default)
def lower_layer_norm(
    ctx: LoweringContext,
    x: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    """``(out, mean, rstd)``; the last two have extent 1 in the normalised dimensions."""
    dtype = _require_float(x)
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    source = reused(ctx, cast_value(x, dtype))
    var, mean = moments(ctx, source, dims, 0.0)
    rstd = _inverse_deviation(ctx, var, eps)
    centered = op("sub", source.body, expand(mean, x.size).body)
    body = op("mul", centered, expand(rstd, x.size).body)
    body = _affine(body, _expanded(weight, x.size), _expanded(bias, x.size))
    out = Value(x.size, dtype, body)
    return from_sums(out, x.dtype), *_saved(ctx, x, mean, rstd)


def _saved(ctx: LoweringContext, x: Value, mean: Value, rstd: Value) -> tuple[Value, Value]:
    """Statistics of a half type as the graph was traced: the CPU's are of that type, other devices'
    float32."""
    traced = ctx.fx_node.meta.get("val") if ctx.fx_node is not None else None
    dtypes = (x.dtype, x.dtype) if traced is None else (traced[1].dtype, traced[2].dtype)
    return cast_value(mean, dtypes[0]), cast_value(rstd, dtypes[1])


@register(aten._fused_rms_norm.default)
def lower_rms_norm(
    ctx: LoweringContext,
    x: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None,
    eps: float | None,
) -> tuple[Value, Value]:
    """``(x / rms * weight, rstd)``."""
    dtype = _require_float(x)
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    if any(same(x.size[d], 0) for d in range(x.ndim)):
        raise CannotLower("rms_norm of no elements")
    source = reused(ctx, cast_value(x, dtype))
    square = Value(x.size, dtype, op("mul", source.body, source.body))
    mean = keep_dims(mean_of(ctx, square, dims), dims, x.size, True)
    # The default is the machine epsilon of the type that is computed in, not of the input's.
    rstd = _inverse_deviation(ctx, mean, torch.finfo(dtype).eps if eps is None else eps)
    body = op("mul", source.body, expand(rstd, x.size).body)
    out = Value(x.size, dtype, _affine(body, _expanded(weight, x.size), None))
    return from_sums(out, x.dtype), rstd


def _expanded(parameter: Value | None, size: Sequence[Size]) -> Expr | None:
    return None if parameter is None else expand(parameter, size).body


@register(aten.native_group_norm.default)
def lower_group_norm(
    ctx: LoweringContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    N: Size,
    C: Size,
    HxW: Size,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    """``(out, mean[N, group], rstd[N, group])``; ``x`` is ``[N, C, *spatial]``."""
    dtype = _require_float(x)
    channels = as_size(FloorDiv(x.size[1], group))  # in each group
    source = reused(ctx, cast_value(x, dtype))
    first, g, c, *rest = loop_vars(x.ndim + 1)
    size = (x.size[0], group, channels, *x.size[2:])
    grouped = reindex(source, size, [first, g * channels + c, *rest])
    dims = list(range(2, grouped.ndim))
    var, mean = moments(ctx, grouped, dims, 0.0)
    rstd = _inverse_deviation(ctx, var, eps)
    variables = loop_vars(x.ndim)
    owner = FloorDiv(variables[1], channels)
    row = [variables[0], owner, *([ZERO] * len(dims))]
    centered = op("sub", source.body, reindex(mean, x.size, row).body)
    body = op("mul", centered, reindex(rstd, x.size, row).body)
    channel = [variables[1]]
    out = Value(x.size, dtype, _affine(body, _at(weight, channel), _at(bias, channel)))
    return from_sums(out, x.dtype), *_saved(ctx, x, without(mean, dims), without(rstd, dims))


# -- batch norm ----------------------------------------------------------------------------


def _channel_vector(value: Value, ndim: int) -> Expr:
    """A ``[C]`` value at the channel of an ``[N, C, ..]`` tensor's coordinate."""
    return value.at([loop_vars(ndim)[1]])


def batch_norm_eval(
    ctx: LoweringContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    eps: float,
) -> Value:
    """``x * scale + shift`` with both in memory: they depend on parameters alone, so the plan
    computes them once and keeps them between calls.
    """
    dtype = _require_float(x)
    size = running_var.size
    variance = cast(running_var.body, dtype)
    inverse = op("rsqrt", op("add", variance, const(eps, dtype)))
    if weight is not None:
        inverse = op("mul", cast(weight.body, dtype), inverse)
    scale = ctx.realize(Value(size, dtype, inverse))
    product = op("mul", cast(running_mean.body, dtype), scale.body)
    if bias is None:
        shift_body = op("neg", product)
    else:
        shift_body = op("sub", cast(bias.body, dtype), product)
    shift = ctx.realize(Value(size, dtype, shift_body))
    scaled = op("mul", cast(x.body, dtype), _channel_vector(scale, x.ndim))
    body = op("add", scaled, _channel_vector(shift, x.ndim))
    return from_sums(Value(x.size, dtype, body), x.dtype)


def batch_norm_train(
    ctx: LoweringContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value, Value]:
    """``(out, mean[C], rstd[C], biased var[C])`` from the batch's own statistics.

    The vectors are of the accumulation dtype.
    """
    dtype = _require_float(x)
    dims = [d for d in range(x.ndim) if d != 1]
    source = reused(ctx, cast_value(x, dtype))
    var, mean = moments(ctx, source, dims, 0.0)
    var, mean = ctx.realize(without(var, dims)), without(mean, dims)
    rstd = _inverse_deviation(ctx, var, eps)
    centered = op("sub", source.body, _channel_vector(mean, x.ndim))
    body = op("mul", centered, _channel_vector(rstd, x.ndim))
    channel = [loop_vars(x.ndim)[1]]
    out = Value(x.size, dtype, _affine(body, _at(weight, channel), _at(bias, channel)))
    return from_sums(out, x.dtype), mean, rstd, var


def _moved(old: Value, new: Value, momentum: float) -> Value:
    """``(1 - momentum) * old + momentum * new`` in the dtype of ``old``."""
    kept = op("mul", cast(old.body, new.dtype), const(1.0 - momentum, new.dtype))
    body = op("add", kept, op("mul", new.body, const(momentum, new.dtype)))
    return cast_value(Value(old.size, new.dtype, body), old.dtype)


def _unbiased(var: Value, count: Size) -> Value:
    """``var * n / (n - 1)``; infinite or NaN for one element, as in eager."""
    if is_static(count):
        n = int(count)
        factor = const(n / (n - 1) if n != 1 else float("inf"), var.dtype)
    else:
        less = op("sub", size_expr(count, var.dtype), const(1, var.dtype))
        factor = op("div", size_expr(count, var.dtype), less)
    return Value(var.size, var.dtype, op("mul", var.body, factor))


@register(aten._native_batch_norm_legit_no_training.default)
def lower_batch_norm_no_training(
    ctx: LoweringContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    out = batch_norm_eval(ctx, x, weight, bias, running_mean, running_var, eps)
    return out, *_saved_by_eval(ctx, x, running_mean, running_var, eps)


def _saved_by_eval(
    ctx: LoweringContext, x: Value, running_mean: Value, running_var: Value, eps: float
) -> tuple[Value, Value]:
    """``save_mean`` and ``save_rstd`` where nothing is trained: empty on the CPU, the running
    statistics on other devices."""
    traced = ctx.fx_node.meta.get("val") if ctx.fx_node is not None else None
    if traced is None or traced[1].numel() == 0:
        none = full((0,), 0, x.dtype)
        return none, none
    dtype = _require_float(x)
    mean = cast_value(running_mean, dtype)
    rstd = _inverse_deviation(ctx, cast_value(running_var, dtype), eps)
    return cast_value(mean, traced[1].dtype), cast_value(rstd, traced[2].dtype)


@register(aten._native_batch_norm_legit_functional.default)
def lower_batch_norm_functional(
    ctx: LoweringContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value, Value, Value]:
    """``(out, save_mean, save_rstd, new running_mean, new running_var)``."""
    if not training:
        out = batch_norm_eval(ctx, x, weight, bias, running_mean, running_var, eps)
        saved = _saved_by_eval(ctx, x, running_mean, running_var, eps)
        return out, *saved, running_mean, running_var
    out, mean, rstd, var = batch_norm_train(ctx, x, weight, bias, eps)
    count = prod([s for d, s in enumerate(x.size) if d != 1])
    results = (
        out,
        cast_value(mean, x.dtype),
        cast_value(rstd, x.dtype),
        _moved(running_mean, mean, momentum),
        _moved(running_var, _unbiased(var, count), momentum),
    )
    traced = ctx.fx_node.meta.get("val") if ctx.fx_node is not None else None
    if traced is None:
        return results
    # For half types PyTorch's shape function says float32 of statistics that eager keeps as they
    # are, and the rest of the graph was traced with that.
    statistics = (mean, rstd, *results[3:])
    dtypes = (t.dtype for t in traced[1:])
    kept = [cast_value(s, d) for s, d in zip(statistics, dtypes, strict=True)]
    return out, kept[0], kept[1], kept[2], kept[3]


@register(aten._native_batch_norm_legit.no_stats)
def lower_batch_norm_no_stats(
    ctx: LoweringContext,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    """Instance norm and batch norm without running statistics."""
    out, mean, rstd, _ = batch_norm_train(ctx, x, weight, bias, eps)
    return out, *_saved(ctx, x, mean, rstd)
