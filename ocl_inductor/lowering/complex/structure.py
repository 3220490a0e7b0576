"""Operators that place, choose or add elements: what they do to a complex tensor they do to each of
its parts."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from ocl_inductor.ir.index import as_size
from ocl_inductor.lowering.complex.pairs import as_parts
from ocl_inductor.lowering.complex.rules import enter, real, result_dtype
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import full
from ocl_inductor.lowering.core.values import ComplexValue, HostValue, Value
from ocl_inductor.lowering.pointwise.copies import require_cpu
from ocl_inductor.lowering.pointwise.rows import overloads
from ocl_inductor.operators.arguments import bind
from ocl_inductor.operators.registry import CannotLower

#: Operators by the names of the arguments that hold elements; the other ones choose among them.
BY_PARTS: dict[str, str] = {
    "self": """
        alias detach detach_copy lift_fresh lift_fresh_copy positive clone
        view _unsafe_view reshape flatten.using_ints expand permute transpose.int t
        slice.Tensor select.int split.Tensor split_with_sizes unsafe_split.Tensor
        unsafe_split_with_sizes unsafe_chunk unbind.int squeeze squeeze.dim squeeze.dims unsqueeze
        flip roll unfold diagonal repeat pixel_shuffle pixel_unshuffle
        index.Tensor _unsafe_index.Tensor index_select gather take constant_pad_nd
        reflection_pad1d reflection_pad2d reflection_pad3d
        replication_pad1d replication_pad2d replication_pad3d
        sum sum.dim_IntList mean mean.dim cumsum
    """,
    "tensors": "cat stack",
    "self other": "where.self where.ScalarSelf where.ScalarOther where.Scalar",
    "self src": """
        copy slice_scatter select_scatter diagonal_scatter scatter.src scatter_add
    """,
    "self values": "index_put _unsafe_index_put",
    "self source": "index_copy index_add",
    "self value": "masked_fill.Scalar masked_fill.Tensor index_fill.int_Scalar scatter.value",
    "grad_in": "unfold_backward",
}

#: Tensors of one number.
FILLED = """
    full full_like new_full zeros zeros_like new_zeros ones ones_like new_ones empty.memory_format
    empty_like new_empty empty_strided new_empty_strided empty_permuted scalar_tensor fill.Scalar
    fill.Tensor zero _efficientzerotensor
"""


def _part(x: object, number: int) -> Any:
    """The real (0) or imaginary (1) part of what an operator takes."""
    if isinstance(x, ComplexValue):
        return (x.re, x.im)[number]
    if isinstance(x, (tuple, list)):
        return type(x)([_part(y, number) for y in x])
    return x


def _as_elements(x: object, dtype: torch.dtype) -> object:
    """Elements as complex ones of the result's dtype; numbers stay numbers."""
    if isinstance(x, (tuple, list)):
        return type(x)([_as_elements(y, dtype) for y in x])
    if isinstance(x, (Value, ComplexValue)):
        return as_parts(x, dtype)
    if isinstance(x, (bool, int, float, complex)):
        return complex(x)
    if isinstance(x, HostValue):
        raise CannotLower("an argument only lives on the host")
    raise CannotLower(f"{type(x).__name__} among complex elements")


def _number_part(x: object, number: int) -> object:
    if isinstance(x, complex):
        return (x.real, x.imag)[number]
    if isinstance(x, (tuple, list)):
        return type(x)([_number_part(y, number) for y in x])
    return _part(x, number)


def _apply_to_parts(
    ctx: LoweringContext, target: Any, data: Sequence[str], args: Any, kwargs: Any
) -> Any:
    """Call the real lowering for each part."""
    dtype = result_dtype(ctx)
    if not dtype.is_complex:
        raise CannotLower(f"{dtype} of complex numbers")
    bound = bind(target, args, kwargs)
    for name in data:
        bound[name] = _as_elements(bound[name], dtype.to_real())
    if isinstance(bound.get("dtype"), torch.dtype):
        bound["dtype"] = bound["dtype"].to_real()
    if bound.get("alpha", 1) != 1 and isinstance(bound["alpha"], complex):
        raise CannotLower("a complex factor")
    if "value" in bound and "value" not in data and bound["value"] is not None:
        bound["value"] = complex(bound["value"])  # of padding
    lowering = real(target)
    accepted = inspect.signature(lowering).parameters
    several = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    schema = target._schema.arguments

    def part(number: int) -> Any:
        given = {n: _number_part(x, number) for n, x in bound.items()}
        positional = [given[a.name] for a in schema if not a.kwarg_only]
        named = {
            a.name: given[a.name]
            for a in schema
            if a.kwarg_only and (several or a.name in accepted)
        }
        return lowering(ctx, *positional, **named)

    re, im = part(0), part(1)
    if isinstance(re, (tuple, list)):
        return type(re)([ComplexValue(a, b) for a, b in zip(re, im, strict=True)])
    return ComplexValue(re, im)


def _enter_by_parts(names: str, data: tuple[str, ...]) -> None:
    for target in overloads(names):

        def rule(
            ctx: LoweringContext, *args: object, _target: object = target, **kwargs: object
        ) -> object:
            return _apply_to_parts(ctx, _target, data, args, kwargs)

        enter(target, rule)


def _filled(ctx: LoweringContext, *args: object, **kwargs: object) -> ComplexValue | Value:
    """A tensor of one number, of the size and dtype that the traced one has."""
    assert ctx.fx_node is not None
    require_cpu(kwargs.get("device"), kwargs.get("layout"))
    target, made = ctx.fx_node.target, ctx.fx_node.meta["val"]
    bound = bind(target, args, kwargs)
    number = bound.get("fill_value", bound.get("value", bound.get("s")))
    if number is None:
        number = 1 if "ones" in str(target) else 0
    size = tuple(as_size(n) for n in made.shape)
    dtype = made.dtype.to_real()
    if isinstance(number, (Value, ComplexValue)):
        parts = as_parts(number, dtype)
        return ComplexValue(
            *(real(torch.ops.aten.expand.default)(ctx, p, size) for p in (parts.re, parts.im))
        )
    if not isinstance(number, (bool, int, float, complex)):
        raise CannotLower("a symbolic number")
    if not made.is_complex():
        return full(size, number, dtype)  # type: ignore[arg-type]
    number = complex(number)
    return ComplexValue(full(size, number.real, dtype), full(size, number.imag, dtype))


def _eye(ctx: LoweringContext, *args: object, **kwargs: object) -> ComplexValue:
    assert ctx.fx_node is not None
    dtype = result_dtype(ctx).to_real()
    made = real(ctx.fx_node.target)(ctx, *args, **{**kwargs, "dtype": dtype})
    return as_parts(made, dtype)


for _target in overloads("eye eye.m"):
    enter(_target, _eye)
for _data, _names in BY_PARTS.items():
    _enter_by_parts(" ".join(_names.split()), tuple(_data.split()))
for _target in overloads(" ".join(FILLED.split())):
    enter(_target, _filled)
