"""Complex tensors as two real ones, and as they lie in memory: an element's parts side by side.

What lies in memory so is a real tensor with a last dimension of 2 and stride 1, and each part is a
view of it. Between kernels' operators parts are values of their own, in memory or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import sympy
import torch

from ocl_inductor.ir.expr import load, op
from ocl_inductor.ir.index import (
    Size,
    as_size,
    contiguous_strides,
    linear,
    loop_vars,
    prod,
    same,
)
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import (
    ZERO,
    ComplexValue,
    StridedView,
    Value,
    buffer_value,
    reindex,
    strided_view,
)
from ocl_inductor.operators.registry import CannotLower
from ocl_inductor.plan.tensor_form import TensorForm

T = TypeVar("T")
#: A number of the program; a symbolic one most rules refuse.
Factor: TypeAlias = bool | int | float | complex | sympy.Basic
#: What a rule takes for a complex operand.
Operand: TypeAlias = Value | ComplexValue | Factor


def from_pairs(pairs: Value) -> ComplexValue:
    """The complex tensor whose parts lie along the last dimension, of extent 2."""
    size, variables = pairs.size[:-1], loop_vars(pairs.ndim - 1)
    re, im = (reindex(pairs, size, [*variables, n]) for n in (0, 1))
    return ComplexValue(re, im)


def seen_pairs(z: ComplexValue) -> StridedView | None:
    """``z`` as pairs in one buffer, where its parts are side by side; the view has their dimension
    as its last."""
    re, im = strided_view(z.re), strided_view(z.im)
    if re is None or im is None or re.buffer != im.buffer or not same(im.offset, re.offset + 1):
        return None
    if not all(map(same, re.stride, im.stride)):
        return None
    return StridedView(re.buffer, (*z.size, 2), (*re.stride, 1), re.offset)


def stored_pairs(
    ctx: LoweringContext, z: ComplexValue, stride: Sequence[Size] | None = None
) -> Value:
    """``z`` written side by side, by one kernel; ``stride`` in elements of the new buffer, which is
    dense in row-major order without it."""
    if stride is None:
        stride = [as_size(2 * s) for s in contiguous_strides(z.size)]
    storage = as_size(2 * prod(z.size))
    return buffer_value(ctx.buffers[ctx.interleave((z.re, z.im), tuple(stride), storage)])


def pairs_in_memory(ctx: LoweringContext, z: ComplexValue) -> Value:
    """``z`` as a value with the parts along the last dimension: a view, or written now."""
    seen = seen_pairs(z)
    if seen is None:
        return stored_pairs(ctx, z)
    variables = [
        ZERO if same(n, 1) else v for v, n in zip(loop_vars(z.ndim + 1), seen.size, strict=True)
    ]
    index = linear(variables, seen.stride, seen.offset)
    return Value(seen.size, z.re.dtype, load(seen.buffer, index, z.re.dtype))


def as_parts(x: object, dtype: torch.dtype) -> ComplexValue:
    """A tensor or a Python number as a complex tensor whose parts are of a real ``dtype``."""
    if isinstance(x, ComplexValue):
        return ComplexValue(cast_value(x.re, dtype), cast_value(x.im, dtype))
    if isinstance(x, Value):
        return ComplexValue(cast_value(x, dtype), full(x.size, 0, dtype))
    if isinstance(x, (bool, int, float, complex)):
        number = complex(x)
        return ComplexValue(full((), number.real, dtype), full((), number.imag, dtype))
    raise CannotLower(f"{type(x).__name__} as a complex operand")


def form_of(fake: torch.Tensor) -> TensorForm:
    """How the caller sees a traced tensor."""
    if not fake.is_complex():
        return "negative" if fake.is_neg() else "plain"
    return "conjugate" if fake.is_conj() else "complex"


def as_seen(value: T, fake: torch.Tensor) -> T | Value | ComplexValue:
    """From what lies in the memory of a traced tensor to its elements; and back."""
    if isinstance(value, ComplexValue) and fake.is_conj():
        return conjugate(value)
    if isinstance(value, Value) and fake.is_neg():
        return negated(value)
    return value


def negated(x: Value) -> Value:
    if x.body.op == "neg":
        return Value(x.size, x.dtype, x.body.args[0])
    return Value(x.size, x.dtype, op("neg", x.body))


def conjugate(z: ComplexValue) -> ComplexValue:
    return ComplexValue(z.re, negated(z.im))
