"""ATen's random operators in terms of uniform and normal numbers and plain ATen operators.

A formula gets a :class:`Draw` and the call's arguments by their names in the schema, and returns
the node of the result, or raises ``KeepOnHost``: for invalid arguments, so that eager's error
appears at run time, and for what it does not cover.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch
from torch.fx import Node

from ocl_inductor.operators.require import ops

aten = torch.ops.aten


#: A number of the call, or the node of a number or tensor.
Argument: TypeAlias = Node | float


class KeepOnHost(Exception):
    """The call is not replaced."""


class Draw(Protocol):
    """One random operator being replaced: adds nodes in front of it."""

    #: Shape and dtype of the result.
    dtype: torch.dtype

    def uniform(self, dtype: torch.dtype) -> Node:
        """Numbers in [0, 1), in the result's shape."""

    def open(self) -> Node:
        """Numbers in (0, 1), of the dtype that :meth:`wide` names."""

    def open_like(self, x: Node) -> Node:
        """Numbers in (0, 1), of the shape and dtype of ``x``, which is float32 or float64."""

    def normal(self, dtype: torch.dtype) -> Node:
        """Standard normal numbers."""

    def integers(self, low: object, high: object) -> Node:
        """int64 numbers in [low, high)."""

    def call(self, target: object, *args: object, **kwargs: object) -> Node:
        """A node for an ATen operator."""

    def wide(self) -> torch.dtype:
        """float64 for a float64 result, else float32."""

    def result(self, x: Node) -> Node:
        """``x`` converted to the result's dtype."""

    def saved(self, x: Node) -> Node:
        """``x``, saved by the forward for its backward because recomputing it is costly."""


Formula = Callable[..., object]


def require(condition: bool) -> None:
    """Raise KeepOnHost unless the condition holds."""
    if not condition:
        raise KeepOnHost


#: Eager's error message about weights.
_NO_PROBABILITY = "contains either `inf`, `nan` or element < 0"
_NO_DISTRIBUTION = "invalid multinomial distribution"


def _plain(*numbers: object) -> bool:
    """Whether all are Python numbers, known when the graph is compiled."""
    return all(isinstance(x, (bool, int, float)) for x in numbers)


# -- uniform and normal ------------------------------------------------------------------------


def rand(draw: Draw, **_: object) -> Node:
    return draw.uniform(draw.dtype)


def randn(draw: Draw, **_: object) -> Node:
    return draw.normal(draw.dtype)


def uniform(draw: Draw, *, to: Argument, **others: Argument) -> Node:
    """``x * (to - from) + from``, as eager's kernel computes it."""
    start = others["from"]
    require(_plain(start, to) and start <= to)
    require(to - start <= torch.finfo(draw.dtype).max)
    if (start, to) == (0, 1):
        return draw.uniform(draw.dtype)
    scaled = draw.call(aten.mul.Tensor, draw.uniform(draw.dtype), to - start)
    return draw.call(aten.add.Tensor, scaled, start)


def normal(draw: Draw, *, mean: Argument, std: Argument, **_: Argument) -> Node:
    """Mean and deviation are numbers or tensors; the sum is rounded to the result's dtype once."""
    require(isinstance(std, Node) or (_plain(std) and std >= 0))
    if isinstance(std, Node):
        require(std.meta["val"].dtype.is_floating_point)
        std = _checked(draw, std, "[]", math.inf, "normal expects all elements of std >= 0.0")
    require(isinstance(mean, Node) or _plain(mean))
    numbers = draw.normal(draw.wide())
    if isinstance(std, Node) or std != 1:
        numbers = draw.call(aten.mul.Tensor, numbers, std)
    if isinstance(mean, Node) or mean != 0:
        numbers = draw.call(aten.add.Tensor, numbers, mean)
    return draw.result(numbers)


def log_normal(draw: Draw, *, mean: Argument, std: Argument, **_: Argument) -> Node:
    require(_plain(mean, std) and std > 0)
    scaled = draw.call(aten.mul.Tensor, draw.normal(draw.wide()), std)
    return draw.result(draw.call(aten.exp.default, draw.call(aten.add.Tensor, scaled, mean)))


# -- by inverting the distribution function ----------------------------------------------------


def exponential(draw: Draw, *, lambd: Argument, **_: Argument) -> Node:
    require(_plain(lambd) and lambd > 0)
    logarithm = draw.call(aten.log.default, draw.open())
    return draw.result(draw.call(aten.mul.Tensor, logarithm, -1.0 / lambd))


def geometric(draw: Draw, *, p: Argument, **_: Argument) -> Node:
    """The number of tosses up to the first success."""
    require(_plain(p) and 0 < p < 1)
    logarithm = draw.call(aten.log.default, draw.open())
    tosses = draw.call(aten.mul.Tensor, logarithm, 1.0 / math.log1p(-p))
    return draw.result(draw.call(aten.ceil.default, tosses))


def cauchy(draw: Draw, *, median: Argument, sigma: Argument, **_: Argument) -> Node:
    require(_plain(median, sigma) and sigma > 0)
    centred = draw.call(aten.sub.Tensor, draw.open(), 0.5)
    slope = draw.call(aten.tan.default, draw.call(aten.mul.Tensor, centred, math.pi))
    scaled = draw.call(aten.mul.Tensor, slope, sigma)
    return draw.result(draw.call(aten.add.Tensor, scaled, median))


# -- choices -----------------------------------------------------------------------------------


def bernoulli(draw: Draw, *, p: Argument | None = None, **others: Argument) -> Node:
    """1 with probability ``p``, a number or a tensor; ``bernoulli(x)`` takes it from ``x``."""
    p = others["self"] if p is None else p
    if isinstance(p, Node):
        says = "Expected p_in >= 0 && p_in <= 1 to be true, but got false"
        double = p.meta["val"].dtype is torch.float64
        require(p.meta["val"].dtype.is_floating_point)
        p = _checked(draw, p, "[]", 1, says)
        numbers = draw.uniform(torch.float64 if double else torch.float32)
        return draw.result(draw.call(aten.lt.Tensor, numbers, p))
    require(_plain(p) and 0 <= p <= 1)
    return draw.result(draw.call(aten.lt.Scalar, draw.uniform(torch.float32), p))


def native_dropout(
    draw: Draw, *, input: Node, p: Argument, train: Argument, **_: Argument
) -> tuple[Node, Node]:
    """``(x * mask / (1 - p), mask)``; multiplied, so that infinity and NaN survive as in eager."""
    require(_plain(p) and 0 <= p <= 1 and train is not False)
    require(input.meta["val"].dtype.is_floating_point)
    mask = draw.call(aten.ge.Scalar, draw.uniform(torch.float32), p)
    kept = draw.call(aten.mul.Tensor, input, mask)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return draw.call(aten.mul.Tensor, kept, scale), mask


def rrelu(
    draw: Draw,
    *,
    noise: Node,
    lower: Argument,
    upper: Argument,
    training: Argument,
    **others: Argument,
) -> tuple[Node, Node]:
    """A slope in [lower, upper) for each element that is not positive, and the slopes."""
    x = others["self"]
    require(_plain(lower, upper) and lower <= upper)
    if not training:
        return draw.call(aten.leaky_relu.default, x, (lower + upper) / 2), noise
    slope = draw.call(aten.mul.Tensor, draw.uniform(draw.wide()), upper - lower)
    slope = draw.call(aten.add.Tensor, slope, lower)
    negative = draw.call(aten.le.Scalar, x, 0)
    one = draw.call(aten.full.default, [], 1.0, dtype=draw.wide())
    kept = draw.result(draw.call(aten.where.self, negative, slope, one))
    return draw.call(aten.where.self, negative, draw.call(aten.mul.Tensor, x, kept), x), kept


# -- permutations and samples of categories ----------------------------------------------------


def randperm(draw: Draw, *, n: Argument, **_: Argument) -> Node:
    """The order of 63-bit keys; a collision is rarer than a hardware fault."""
    require((_plain(n) and n >= 0 and _holds(draw.dtype, n)) or _is_size(n))
    ordered = draw.call(aten.sort.default, draw.integers(0, 2**63 - 1))
    return draw.saved(draw.result(draw.call(operator.getitem, ordered, 1)))


def multinomial(draw: Draw, *, num_samples: int, replacement: bool, **others: Argument) -> Node:
    """Categories by weight; weights are finite, not negative and not all 0, as eager checks."""
    weights = others["self"]
    assert isinstance(weights, Node)
    fake = weights.meta["val"]
    categories = fake.shape[-1]
    require(_plain(num_samples) and num_samples > 0 and isinstance(categories, int))
    require(fake.dtype.is_floating_point and fake.ndim in (1, 2) and categories > 0)
    if fake.dtype not in (torch.float32, torch.float64):
        weights = draw.call(aten._to_copy.default, weights, dtype=torch.float32)
    if not replacement or num_samples == 1:
        require(num_samples <= categories)
        weights = _checked(draw, weights, "[)", math.inf, f"probability tensor {_NO_PROBABILITY}")
        weights = _checked_sums(draw, weights)
        return draw.saved(_without_replacement(draw, weights, num_samples))
    for ends, fault in (("[]", "entry < 0"), ("[)", "entry = infinity or NaN")):
        says = f"{_NO_DISTRIBUTION} (encountering probability {fault})"
        weights = _checked(draw, weights, ends, math.inf, says)
    weights = _checked_sums(draw, weights)
    sums = draw.call(aten.cumsum.default, weights, -1)
    total = draw.call(aten.slice.Tensor, sums, -1, categories - 1, categories)
    # A little less than the total, so that the product cannot round to it.
    below = draw.call(aten.mul.Tensor, total, 1 - 2.0**-22)
    at = draw.call(aten.mul.Tensor, draw.uniform(weights.meta["val"].dtype), below)
    return draw.saved(draw.call(aten.searchsorted.Tensor, sums, at, right=True))


def _checked_sums(draw: Draw, weights: Node) -> Node:
    """Weights of which none is negative; they are not all 0 where the largest one is not."""
    says = f"{_NO_DISTRIBUTION} (sum of probabilities <= 0)"
    largest = draw.call(aten.amax.default, weights, [-1], True)
    return draw.call(ops.require.default, weights, _inside(draw, largest, "(]", math.inf), says)


def _checked(draw: Draw, x: Node, ends: str, high: float, says: str) -> Node:
    """``x``, an error if one of its elements does not lie between 0 and ``high``."""
    return draw.call(ops.require.default, x, _inside(draw, x, ends, high), says)


#: By the character that ends an interval: what a number has to be to its bound.
_COMPARISONS = {
    "[": aten.ge.Scalar, "(": aten.gt.Scalar, "]": aten.le.Scalar, ")": aten.lt.Scalar
}  # fmt: skip


def _inside(draw: Draw, x: Node, ends: str, high: float) -> Node:
    """Whether elements lie in the interval from 0 to ``high``; NaN lies in none."""
    above, below = (
        draw.call(_COMPARISONS[end], x, bound) for end, bound in zip(ends, (0, high), strict=True)
    )
    return draw.call(aten.logical_and.default, above, below)


def _without_replacement(draw: Draw, weights: Node, count: int) -> Node:
    """Exponential waiting times with the weights as rates: the first to arrive, as in eager."""
    logarithm = draw.call(aten.log.default, draw.open_like(weights))
    # Weight over time rather than its inverse: a weight of 0 stays last.
    rates = draw.call(aten.div.Tensor, weights, draw.call(aten.neg.default, logarithm))
    if count == 1:
        return draw.call(aten.argmax.default, rates, -1, True)
    return draw.call(operator.getitem, draw.call(aten.topk.default, rates, count), 1)


def randint(draw: Draw, *, high: Argument, low: Argument = 0, **_: Argument) -> Node:
    for bound in (low, high):
        require(_plain(bound) or _is_size(bound))
    if _plain(low, high):
        require(low < high and _holds(draw.dtype, low) and _holds(draw.dtype, high - 1))
    return draw.result(draw.integers(low, high))


def _is_size(x: object) -> bool:
    return isinstance(x, Node) and isinstance(x.meta.get("val"), torch.SymInt)


def _holds(dtype: torch.dtype, n: float) -> bool:
    """Whether a dtype holds all integers up to ``n``; else eager warns or raises."""
    if dtype is torch.bool:
        return 0 <= n <= 1
    if dtype.is_floating_point:
        return bool(abs(n) <= 2 / torch.finfo(dtype).eps)
    return torch.iinfo(dtype).min <= n <= torch.iinfo(dtype).max


FORMULAS: dict[torch._ops.OpOverload, Formula] = {
    aten.rand.default: rand,
    aten.rand.generator: rand,
    aten.rand_like.default: rand,
    aten.rand_like.generator: rand,
    aten.uniform.default: uniform,
    aten.randn.default: randn,
    aten.randn.generator: randn,
    aten.randn_like.default: randn,
    aten.randn_like.generator: randn,
    aten.normal.Tensor_float: normal,
    aten.normal.float_Tensor: normal,
    aten.normal.Tensor_Tensor: normal,
    aten.normal.float_float: normal,
    aten.normal_functional.default: normal,
    aten.log_normal.default: log_normal,
    aten.exponential.default: exponential,
    aten.geometric.default: geometric,
    aten.cauchy.default: cauchy,
    aten.bernoulli.default: bernoulli,
    aten.bernoulli.p: bernoulli,
    aten.bernoulli.Tensor: bernoulli,
    aten.native_dropout.default: native_dropout,
    aten.rrelu_with_noise_functional.default: rrelu,
    aten.randperm.default: randperm,
    aten.randperm.generator: randperm,
    aten.multinomial.default: multinomial,
    aten.randint.default: randint,
    aten.randint.generator: randint,
    aten.randint.low: randint,
    aten.randint.low_generator: randint,
    aten.randint_like.default: randint,
    aten.randint_like.generator: randint,
    aten.randint_like.low_dtype: randint,
    aten.randint_like.low_generator_dtype: randint,
}
