"""Calls that eager refuses, but PyTorch's shape functions accept: compiled, they return numbers.

They are found in Dynamo's graph, before decompositions. Such a graph is left to eager, which raises
its own error. Operators that reach a lowering whole are refused there (CannotLower).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map_only

from ocl_inductor.capture.overlaps import overlap

#: The reason why eager refuses a node, or "".
Rule = Callable[[Node], str]


def why_refused(gm: GraphModule) -> Iterator[tuple[Node, str]]:
    """Each node of Dynamo's graph that eager refuses, or has to decide on, with the reason."""
    for node in gm.graph.nodes:
        rule = RULES.get(node.target)
        reason = rule(node) if rule is not None else ""
        if reason:
            yield node, f"eager refuses this: {reason}"
        elif reason := overlap(node):
            yield node, f"eager decides on this: {reason}"


def _tensor(argument: object) -> torch.Tensor | None:
    value = argument.meta.get("example_value") if isinstance(argument, Node) else argument
    return value if isinstance(value, torch.Tensor) else None


def _resized(node: Node) -> str:
    """Interpolation of integers other than bytes, or of images without pixels or channels."""
    x = _tensor(node.args[0] if node.args else node.kwargs.get("input"))
    mode = node.kwargs.get("mode", node.args[3] if len(node.args) > 3 else "")
    if x is None or mode == "area":  # pooling
        return ""
    if not (x.dtype.is_floating_point or x.dtype is torch.uint8):
        return f"images of {x.dtype} are not resized"
    if any(isinstance(n, int) and n == 0 for n in x.shape[1:]):
        return f"an image of size {list(x.shape[1:])} is not resized"
    return ""


def _running_truth(node: Node) -> str:
    x = _tensor(node.args[0])
    truth = x is not None and x.dtype is torch.bool and node.kwargs.get("dtype") is None
    return "there is no running sum or product in truth values" if truth else ""


def _other_out(node: Node) -> str:
    """``out`` of another dtype than the result, which these functions do not convert to."""
    out = node.kwargs.get("out")
    if out is None:
        return ""

    def on_meta(x: Node) -> object:
        t = _tensor(x)
        return x if t is None else torch.empty([1] * t.ndim, dtype=t.dtype, device="meta")

    args, kwargs = tree_map_only(Node, on_meta, (node.args, dict(node.kwargs)))
    kwargs.pop("out")
    results = tree_leaves(node.target(*args, **kwargs))  # type: ignore[operator]
    for given, result in zip(map(_tensor, tree_leaves(out)), results, strict=True):
        if given is not None and given.dtype is not result.dtype:
            return f"the result is {result.dtype}, out is {given.dtype}"
    return ""


def _power(node: Node) -> str:
    """A negative integer power of integers."""
    args = [*node.args, *(node.kwargs[k] for k in ("input", "exponent") if k in node.kwargs)]
    x, exponent = _tensor(args[0]), args[1] if len(args) > 1 else None
    negative = isinstance(exponent, int) and exponent < 0
    if x is None or x.dtype.is_floating_point or x.dtype.is_complex or not negative:
        return ""
    return "integers have no negative powers"


def _smoothed(node: Node) -> str:
    beta = node.kwargs.get("beta", node.args[5] if len(node.args) > 5 else 1.0)
    if isinstance(beta, (int, float)) and beta < 0:
        return "smooth_l1_loss does not support negative values for beta"
    return _takes(fractions=True, count=2)(node)


def _drawn(node: Node) -> str:
    """More categories than a float can distinguish; ``out`` of another dtype than int64."""
    x = _tensor(node.args[0])
    many = x is not None and x.ndim and isinstance(x.shape[-1], int) and x.shape[-1] > 1 << 24
    return "more than 2^24 categories" if many else _other_out(node)


def _takes(fractions: bool, count: int = 1) -> Rule:
    """A rule for what is decomposed: of the first ``count`` operands' common dtype.

    ``fractions``: no integers are taken; truth values never are.
    """

    def rule(node: Node) -> str:
        given = [*node.args[:count], *(v for k, v in node.kwargs.items() if k in _OPERANDS)]
        tensors = [x for x in map(_tensor, given) if x is not None]
        if not tensors:
            return ""
        dtype = functools.reduce(torch.promote_types, (x.dtype for x in tensors[:count]))
        real = dtype.is_floating_point or dtype.is_complex
        taken = real if fractions else dtype is not torch.bool
        return "" if taken else f"{dtype} is not taken"

    return rule


#: What functions call their operands.
_OPERANDS = ("input", "target", "self", "other")


def _counted(node: Node) -> str:
    """A range of truth values."""
    out = _tensor(node.kwargs.get("out"))
    truth = torch.bool in (node.kwargs.get("dtype"), out.dtype if out is not None else None)
    return "there is no range of truth values" if truth else ""


def _pooled(node: Node) -> str:
    """Maxima of integers in one dimension, which take another way than those in two."""
    return "" if node.kwargs.get("return_indices") else _takes(True)(node)


def _made_of_bfloat16(node: Node) -> str:
    x = _tensor(node.args[0] if node.args else None)
    if x is not None and x.dtype is torch.bfloat16:
        return "there are no complex numbers of bfloat16"
    return _other_out(node)


def _not_narrow(node: Node) -> str:
    x = _tensor(node.args[0] if node.args else node.kwargs.get("input"))
    narrow = x is not None and x.dtype in (torch.float16, torch.bfloat16)
    return "half types are not taken" if narrow else ""


#: Functions whose ``out`` is of the result's dtype. (Where a few take another, eager runs them.)
_OWN_OUT = (
    *(torch.amax, torch.amin, torch.aminmax, torch.index_select, torch.take),
    *(torch.clamp, torch.clip, torch.clamp_min, torch.clamp_max, torch.all, torch.any),
    *(torch.tril, torch.triu, torch.softmax, torch.log_softmax),
)

_F = torch.nn.functional

#: Decomposed functions that take numbers, and no truth values.
_NUMBERS = (torch.trace, "trace", torch.mvlgamma, "mvlgamma", "mvlgamma_")

#: Those that take no integers either; of two operands their common dtype counts.
_FRACTIONS = (
    *(_F.glu, torch._C._nn.glu, _F.rrelu, torch.rrelu, torch.rrelu_, _F.unfold, _F.grid_sample),
    *(_F.nll_loss, _F.binary_cross_entropy, _F.multi_margin_loss, _F.multilabel_margin_loss),
    *(_F.hardshrink, torch.hardshrink, "hardshrink", "uniform_", "normal_", "exponential_"),
)
_FRACTIONS_OF_TWO = (_F.huber_loss, _F.soft_margin_loss)

RULES: Mapping[object, Rule] = {
    torch.nn.functional.interpolate: _resized,
    **{f: _resized for name, f in vars(torch._C._nn).items() if "upsample_" in name},
    "cumsum_": _running_truth,
    "cumprod_": _running_truth,
    **dict.fromkeys(_OWN_OUT, _other_out),
    **dict.fromkeys(_NUMBERS, _takes(fractions=False)),
    **dict.fromkeys((torch.cross, torch.linalg.cross, "cross"), _takes(fractions=False, count=2)),
    **dict.fromkeys(_FRACTIONS, _takes(fractions=True)),
    **dict.fromkeys(_FRACTIONS_OF_TWO, _takes(fractions=True, count=2)),
    **dict.fromkeys((torch.max_pool1d, _F.max_pool1d), _pooled),
    **dict.fromkeys((torch.arange, torch.range, torch.logspace), _counted),
    **dict.fromkeys((torch.complex, torch.polar), _made_of_bfloat16),
    torch.special.log_ndtr: _not_narrow,
    torch.multinomial: _drawn,
    torch.nn.functional.smooth_l1_loss: _smoothed,
    **dict.fromkeys((torch.pow, operator.pow, operator.ipow, "pow", "pow_", "__pow__"), _power),
}
