"""Checks in front of operators whose decompositions lack them: the fractions of quantiles, and the
classes of ``one_hot`` in versions that do not check them in a graph.

Eager checks these values before it computes; the decomposed operators do not. In Dynamo's graph the
operator is still whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.operators.require import ops
from ocl_inductor.support.torch_versions import one_hot_is_checked

_QUANTILES = frozenset({torch.quantile, torch.nanquantile, "quantile", "nanquantile"})
_ONE_HOT = frozenset({torch.nn.functional.one_hot})
#: Metadata with the place in the model from which a node comes.
_PLACE = ("stack_trace", "nn_module_stack", "source_fn_stack")
_NO_FRACTION = "quantile() q values must be in the range [0, 1]"
_NO_CLASS = "Class values must be non-negative and smaller than num_classes."


def add_checks(gm: GraphModule) -> None:
    """Make the graph refuse the values that eager refuses; in place."""
    nodes = list(gm.graph.nodes)
    checked = [_check_fractions(node) for node in nodes if node.target in _QUANTILES]
    classes = [node for node in nodes if node.target in _ONE_HOT]
    if classes and not one_hot_is_checked():
        checked += [_check_classes(node) for node in classes]
    if any(checked):
        gm.recompile()


def _check_fractions(node: Node) -> bool:
    """Numbers are skipped: the shape function checks them."""
    q = _argument(node, 1, "q")
    return _require(node, q, [(torch.ge, 0), (torch.le, 1)], _NO_FRACTION)


def _check_classes(node: Node) -> bool:
    """Without a number of classes, they are counted outside of the graph."""
    classes = _argument(node, 1, "num_classes")
    if classes is None or classes == -1:
        return False
    x = _argument(node, 0, "input")
    return _require(node, x, [(torch.ge, 0), (torch.lt, classes)], _NO_CLASS)


def _argument(node: Node, position: int, name: str) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name)


def _require(node: Node, x: object, bounds: Sequence[tuple[object, object]], says: str) -> bool:
    """Make ``node`` require each comparison for ``x``, if that is a tensor."""
    if not isinstance(x, Node) or not isinstance(x.meta.get("example_value"), torch.Tensor):
        return False
    with node.graph.inserting_before(node):
        least, most = [node.graph.call_function(f, (x, bound)) for f, bound in bounds]
        both = node.graph.call_function(torch.logical_and, (least, most))
        checked = node.graph.call_function(ops.require.default, (x, both, says))
    for new in (least, most, both, checked):
        new.meta = {k: v for k, v in node.meta.items() if k in _PLACE}
    checked.meta["example_value"] = x.meta["example_value"]
    node.replace_input_with(x, checked)
    return True
