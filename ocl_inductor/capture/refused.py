"""Calls that eager refuses, but PyTorch's shape functions accept: compiled, they return numbers.

They are found in Dynamo's graph, before decompositions. Such a graph is left to eager, which raises
its own error. Operators that reach a lowering whole are refused there (CannotLower).
"""

from __future__ import annotations

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
    negative = isinstance(beta, (int, float)) and beta < 0
    return "smooth_l1_loss does not support negative values for beta" if negative else ""


def _drawn(node: Node) -> str:
    """More categories than a float can distinguish; ``out`` of another dtype than int64."""
    x = _tensor(node.args[0])
    many = x is not None and x.ndim and isinstance(x.shape[-1], int) and x.shape[-1] > 1 << 24
    return "more than 2^24 categories" if many else _other_out(node)


#: Functions whose ``out`` is of the result's dtype. (Where a few take another, eager runs them.)
_OWN_OUT = (
    *(torch.amax, torch.amin, torch.aminmax, torch.complex, torch.index_select, torch.take),
    *(torch.clamp, torch.clip, torch.clamp_min, torch.clamp_max, torch.all, torch.any),
    *(torch.tril, torch.triu, torch.softmax, torch.log_softmax),
)

RULES: Mapping[object, Rule] = {
    torch.nn.functional.interpolate: _resized,
    **{f: _resized for name, f in vars(torch._C._nn).items() if "upsample_" in name},
    "cumsum_": _running_truth,
    "cumprod_": _running_truth,
    **dict.fromkeys(_OWN_OUT, _other_out),
    torch.multinomial: _drawn,
    torch.nn.functional.smooth_l1_loss: _smoothed,
    **dict.fromkeys((torch.pow, operator.pow, operator.ipow, "pow", "pow_", "__pow__"), _power),
}
