"""Every row of the pointwise tables: dtype, shape and values against eager mode, without OpenCL.

The expressions are evaluated with PyTorch, primitive by primitive, so that formulas, promotion and
special values are tested here and the OpenCL text of primitives in ``tests/device``.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import sympy
import torch

from ocl_inductor.ir.expr import Check, Expr, walk
from ocl_inductor.ir.nodes import dense_buffer
from ocl_inductor.ir.ops import PRIMITIVES
from ocl_inductor.lowering.core.values import HostValue, Value, buffer_value
from ocl_inductor.lowering.pointwise import backward as pointwise_backward
from ocl_inductor.lowering.pointwise import copies, factories
from ocl_inductor.lowering.pointwise import table as pointwise_table
from ocl_inductor.lowering.pointwise.rows import round_to
from ocl_inductor.operators.registry import LOWERINGS, CannotLower

aten = torch.ops.aten
assert copies and factories  # registered by their import

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, U8, I32, I64, BOOL = torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool
HALF = (F16, BF16)


class FakeContext:
    """Lowerings of pointwise operators only ask the device for double precision, and values to be
    checked."""

    class device:
        fp64 = True

    nodes = ()

    def requirement(self, says: str) -> Check:
        return Check(wraps=False, number=1)


# -- evaluating expressions ------------------------------------------------------------------


def evaluate(value: Value, buffers: dict[str, torch.Tensor]) -> torch.Tensor:
    """The tensor a Value stands for; half types live in float32 registers, as on the device."""
    shape = [int(s) for s in value.size]
    grids = torch.meshgrid(*(torch.arange(s) for s in shape), indexing="ij") if shape else ()
    coordinates = {f"v{i}": g for i, g in enumerate(grids)}
    done: dict[Expr, torch.Tensor] = {}

    def index_of(e: sympy.Expr) -> torch.Tensor:
        symbols = sorted(e.free_symbols, key=str)
        if not symbols:
            return torch.full(shape, int(e), dtype=I64)
        fn = sympy.lambdify(symbols, e, "math")
        return fn(*(coordinates[str(s)] for s in symbols)).expand(shape)

    def register(dtype: torch.dtype) -> torch.dtype:
        return F32 if dtype in HALF else dtype

    for node in walk(value.body):
        args = [done[a] for a in node.args]
        if node.op == "const":
            result = torch.full(shape, node.payload, dtype=register(node.dtype))
        elif node.op == "index":
            result = index_of(node.payload).to(node.dtype)
        elif node.op == "load":
            flat = buffers[node.payload.buffer].reshape(-1)
            result = flat[index_of(node.payload.index)].to(register(node.dtype))
        elif node.op == "cast":
            result = args[0].to(node.dtype).to(register(node.dtype))
        elif node.op == "as":
            assert {node.dtype, node.args[0].dtype} <= {F32, F16, BF16}
            result = args[0]
        elif node.op == "where":
            assert node.args[0].dtype is BOOL and node.args[1].dtype == node.args[2].dtype
            result = torch.where(*args)
        elif node.op == "checked_index":
            result = torch.where((args[0] >= 0) & (args[0] < args[1]), args[0], 0).to(node.dtype)
        else:
            assert len({a.dtype for a in node.args}) == 1, f"mixed operands of {node}"
            reference = PRIMITIVES[node.op].reference
            assert reference is not None, node.op
            result = reference(*args)
        assert result.dtype == register(node.dtype), f"{node} gave {result.dtype}"
        done[node] = result
    return done[value.body].to(value.dtype)


def lower(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict]:
    """Lower a call on real tensors; the dictionary holds the buffers its expressions read."""
    buffers: dict[str, torch.Tensor] = {}

    def convert(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        name = f"in{len(buffers)}"
        buffers[name] = x
        return buffer_value(dense_buffer(name, x.dtype, tuple(x.shape)))

    args = tuple(convert(a) for a in args)
    kwargs = {k: convert(v) for k, v in kwargs.items()}
    return LOWERINGS[target](FakeContext(), *args, **kwargs), buffers


def check(target: Any, *args: Any, exact: bool = True, **kwargs: Any) -> None:
    """Same dtype, shape and values as eager."""
    want = target(*args, **kwargs)
    got, buffers = lower(target, args, kwargs)
    results, wants = (got, want) if isinstance(got, tuple) else ((got,), (want,))
    for value, expected in zip(results, wants, strict=True):
        assert value.dtype == expected.dtype
        assert value.body.dtype == value.dtype
        assert tuple(value.size) == tuple(expected.shape)
        if not exact:
            continue
        actual = evaluate(value, buffers)
        tolerance = {F16: 2e-3, BF16: 1.6e-2, F32: 5e-6, F64: 1e-12}.get(actual.dtype, 0)
        torch.testing.assert_close(
            actual, expected.contiguous(), rtol=tolerance, atol=tolerance, equal_nan=True
        )


# -- rows ------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 2.5, -3.5, 0.5, -0.5, 30.0, math.inf, -math.inf,
           math.nan, 7.0, -6.0]  # fmt: skip
#: Dtypes of the tensor operands, cyclically, and whether later ones are 0-d.
COMBINATIONS = [
    ((F32,), False), ((F16,), False), ((BF16,), False), ((F64,), False), ((I64,), False),
    ((BOOL,), False), ((U8,), False), ((F32, F64), True), ((I64, F32), False),
    ((F16, F32), True), ((I8, I64), False), ((BF16, F32), False), ((I32, F64), True),
    ((BOOL, I64), False), ((U8, I8), False),
]  # fmt: skip
SCALARS: list[Any] = [2, 0.3, True]
#: Arguments that are not operands, where the schema has no default or a default says too little.
OTHERS: dict[str, list[Any]] = {
    "alpha": [1, 2], "value": [1, 3], "negative_slope": [0.1], "approximate": ["none", "tanh"],
    "eps": [None, 0.1], "lambd": [0.4], "threshold": [1.5], "beta": [1, 2], "decimals": [2, -1],
    "min_val": [-0.4], "max_val": [0.4], "scale": [1.5], "input_scale": [0.7], "is_result": [False],
    "n": [0, 1, 4], "nan": [None, 2.5],
    "posinf": [None, 9.0], "neginf": [None], "self_is_result": [False],
}  # fmt: skip


def sample(dtype: torch.dtype, position: int, zero_dim: bool) -> torch.Tensor:
    if dtype is BOOL:
        x = torch.arange(32) * (position + 3) % 5 < 2
    elif dtype.is_floating_point:
        x = torch.tensor(SPECIAL, dtype=F64)
        x = torch.cat([x, x.roll(position * 3 + 1) * 0.9])
        x = x.roll(position * 5).to(dtype)
    else:
        x = torch.arange(32) * 7 % 11 + (1 if position else -3 if dtype is not U8 else 0)
        x = x.to(dtype)
    if zero_dim:
        return x[3].clone()
    return x.reshape(4, 8) if position == 0 else x.reshape(4, 8)[:, :1].contiguous()


def calls(target: Any, dtypes: tuple[torch.dtype, ...], zero_dim: bool):
    """Argument lists for an overload: a tensor, or each of some numbers, for each operand."""
    choices: list[list[Any]] = []
    tensors = 0
    for argument in target._schema.arguments:
        kind = str(argument.type).removeprefix("Optional[").rstrip("]")
        if kind == "Tensor":
            dtype = dtypes[tensors % len(dtypes)]
            choices.append([sample(dtype, tensors, zero_dim and tensors > 0)])
            tensors += 1
        elif argument.name in OTHERS:
            choices.append(OTHERS[argument.name])
        elif argument.has_default_value() and argument.default_value is not None:
            choices.append([argument.default_value])
        elif kind in ("number", "Scalar", "float", "int"):
            choices.append(SCALARS)
        else:
            raise AssertionError(f"{target}: no sample for {argument}")
    for values in itertools.product(*choices):
        positional, keywords = [], {}
        for argument, value in zip(target._schema.arguments, values, strict=True):
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        yield tuple(positional), keywords


#: Where eager itself is not a reference: oneDNN's gelu of infinity is NaN, and this gradient takes
#: a second result of its forward.
EAGER_DIFFERS = {aten.gelu.default}
NEEDS_FORWARD = {aten.log_sigmoid_backward.default}
TARGETS = [t for r in (*pointwise_table.ROWS, *pointwise_backward.ROWS) for t in r.targets]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_row(target: Any) -> None:
    tried = 0
    gradient = target._schema.name.endswith("_backward")
    for dtypes, zero_dim in COMBINATIONS:
        if gradient and len(dtypes) > 1:
            continue  # a gradient has the dtype of what it belongs to
        for args, kwargs in calls(target, dtypes, zero_dim):
            try:
                target(*args, **kwargs)
            except (RuntimeError, TypeError, ValueError, ZeroDivisionError):
                continue  # eager refuses these dtypes
            try:
                exact = target not in EAGER_DIFFERS | NEEDS_FORWARD
                check(target, *args, exact=exact, **kwargs)
            except CannotLower:
                continue
            except AssertionError as error:
                described = [(a.dtype, a.ndim) if isinstance(a, torch.Tensor) else a for a in args]
                raise AssertionError(f"{target} {described} {kwargs}: {error}") from error
            tried += 1
    assert tried


# -- what is not a row -----------------------------------------------------------------------


def finite(dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.linspace(-4, 4, 32).reshape(4, 8).to(dtype)


def test_gelu_and_the_gradients_eager_is_vague_about() -> None:
    x, g = finite(), finite().flip(0).contiguous()
    for approximate in ("none", "tanh"):
        check(aten.gelu.default, x, approximate=approximate)
        check(aten.gelu_backward.default, g, x, approximate=approximate)
    check(aten.hardsigmoid_backward.default, g, x)
    check(aten.log_sigmoid_forward.default, x)
    buffer = aten.log_sigmoid_forward(x)[1]
    check(aten.log_sigmoid_backward.default, g, x, buffer)
    weight = torch.tensor([0.25])
    check(aten._prelu_kernel_backward.default, g, x, weight.expand(4, 8).contiguous())


@pytest.mark.parametrize("source", [F32, F64, F16, BF16, I8, I32, I64, U8, BOOL], ids=str)
def test_conversions(source: torch.dtype) -> None:
    x = sample(source, 0, False)
    for target in (F32, F64, F16, BF16, I32, I64, BOOL):
        y = x
        if not target.is_floating_point and source.is_floating_point:
            y = torch.nan_to_num(x, 0, 9, -9)
        check(aten._to_copy.default, y, dtype=target)
        check(torch.ops.prims.convert_element_type.default, y, target)
        check(aten.copy.default, torch.zeros(4, 8, dtype=target), y[:, :1].contiguous())
    check(aten.clone.default, x)
    check(aten.clone.default, x, memory_format=torch.contiguous_format)
    check(aten.alias.default, x)


def test_conversion_rounds_but_arithmetic_does_not() -> None:
    x = buffer_value(dense_buffer("in0", F32, (4,)))
    half = LOWERINGS[aten._to_copy.default](FakeContext(), x, dtype=F16)
    assert half.body.op == "cast"
    doubled = LOWERINGS[aten.add.Tensor](FakeContext(), half, half)
    again = LOWERINGS[aten.mul.Tensor](FakeContext(), doubled, 3.0)
    names = [n.op for n in walk(again.body)]
    assert names.count("cast") == 1 and names.count("as") == 2


@pytest.mark.parametrize("dtypes", [(F32, F32), (F16, F32), (I64, F32), (I32, I64), (BOOL, F16)])
def test_where_and_masked_fill(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    mask = sample(BOOL, 0, False)
    a, b = sample(dtypes[0], 0, False), sample(dtypes[1], 1, False)
    check(aten.where.self, mask, a, b)
    check(aten.where.self, mask[:, :1].contiguous(), a, b[0, 0])
    check(aten.masked_fill.Scalar, a, mask, 1)
    check(aten.masked_fill.Scalar, b, mask, True)
    if dtypes[0] == dtypes[1] or dtypes[0].is_floating_point:
        check(aten.masked_fill.Tensor, a, mask, b[0, 0])


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
def test_division_modes(mode: str | None) -> None:
    for a, b in [(F32, F32), (I64, I64), (I32, F32), (F16, F16), (U8, U8)]:
        x, y = sample(a, 0, False), sample(b, 1, False)
        if not y.dtype.is_floating_point:
            y = y.abs() + 1
        check(aten.div.Tensor_mode, x, y, rounding_mode=mode)
    check(aten.div.Scalar_mode, sample(I64, 0, False), 2.5, rounding_mode=mode)


def test_prelu() -> None:
    x = torch.randn(2, 3, 4)
    check(aten.prelu.default, x, torch.tensor([0.1]))
    check(aten.prelu.default, x, torch.tensor([0.1, 0.2, 0.3]))


def test_factories() -> None:
    x = sample(F16, 0, False)
    for number in (0, 1.5, True):
        check(aten.full.default, [2, 3], number)
        check(aten.full.default, [], number, dtype=BF16)
        check(aten.full_like.default, x, number)
        check(aten.full_like.default, x, number, dtype=I64)
        check(aten.new_full.default, x, [3], number)
        check(aten.scalar_tensor.default, number)
        check(aten.fill.Scalar, x, number)
    check(aten.full.default, [3], 0.1, dtype=F16)
    check(aten.full.default, [3], 0.1, dtype=BF16)
    check(aten.zeros.default, [0, 4])
    check(aten.ones.default, [2], dtype=I8)
    check(aten.zeros_like.default, x)
    check(aten.ones_like.default, x, dtype=BOOL)
    check(aten.new_zeros.default, x, [2, 2])
    check(aten.new_ones.default, x, [2, 2], dtype=I32)
    check(aten.empty.memory_format, [2, 2], exact=False)
    check(aten.fill.Tensor, x, torch.tensor(0.1))
    check(aten.eye.default, 3)
    check(aten.eye.m, 2, 5, dtype=I64)


@pytest.mark.parametrize(
    "arguments", [(0, 10, 1), (3, 20, 4), (10, 0, -3), (5, 5, 1), (-4, 7, 2), (0, 1, 0.1),
                  (2.5, -1.0, -0.7), (1, 2, 0.3)],
)  # fmt: skip
def test_arange(arguments: tuple[Any, ...]) -> None:
    check(aten.arange.start_step, *arguments)
    check(aten.arange.start_step, *arguments, dtype=F64)
    if all(isinstance(a, int) for a in arguments):
        for dtype in (F32, F16, I32):
            check(aten.arange.start_step, *arguments, dtype=dtype)


@pytest.mark.parametrize(
    "arguments", [(14, -14, -1.0), (0.9, 7.2, 1.0), (0.5, 9.7, 2.5), (1, 6, 1.5), (-3.7, 5.2, 1.9),
                  (5, 0, -1.5), (2.5, 2.5, 1.0), (-0.5, 4, 1), (2**40 + 0.5, 2**40 + 9, 2.0)],
)  # fmt: skip
def test_arange_of_integers_from_floats(arguments: tuple[Any, ...]) -> None:
    """The number of elements is another for int64 than for the shorter integers."""
    for dtype in (I64, I32, I8, U8):
        check(aten.arange.start_step, *arguments, dtype=dtype)


def test_linspace() -> None:
    for steps in (0, 1, 2, 5, 10):
        check(aten.linspace.default, -1.0, 3.5, steps)
    check(aten.arange.default, 7)
    check(aten.arange.start, 2, 9)


def test_sizes_as_numbers() -> None:
    """A symbolic size promotes as a Python integer does."""
    s0 = sympy.Symbol("s0", integer=True, positive=True)
    x = buffer_value(dense_buffer("in0", F32, (s0, 4)))
    result = LOWERINGS[aten.mul.Tensor](FakeContext(), x, s0)
    assert result.dtype is F32 and result.size == (s0, 4)
    y = buffer_value(dense_buffer("in1", I32, (4,)))
    assert LOWERINGS[aten.add.Tensor](FakeContext(), y, s0).dtype is I32
    row = LOWERINGS[aten.arange.start_step](FakeContext(), 0, s0 + 1, 2)
    assert row.dtype is I64 and row.size[0].subs(s0, 5) == 3


def test_what_is_refused() -> None:
    x = buffer_value(dense_buffer("in0", F32, (4,)))
    context = FakeContext()
    for args in [(x, 1j), (HostValue("h"), x)]:
        with pytest.raises(CannotLower):
            LOWERINGS[aten.add.Tensor](context, *args)
    with pytest.raises(CannotLower):
        LOWERINGS[aten._to_copy.default](context, x, dtype=torch.complex64)
    with pytest.raises(CannotLower):
        LOWERINGS[aten._to_copy.default](context, x, device=torch.device("meta"))
    no_doubles = type("C", (), {"device": type("D", (), {"fp64": False})})
    with pytest.raises(CannotLower):
        LOWERINGS[aten._to_copy.default](no_doubles, x, dtype=F64)


def test_rounding_of_numbers() -> None:
    for value in (0.1, 1e-8, 70000.0, -3.14159, 65519.0, 3.4e38, math.inf):
        for dtype in (F16, BF16, F32):
            assert round_to(value, dtype) == torch.tensor(value, dtype=F64).to(dtype).item()
