"""Checks in front of operators that PyTorch takes apart without them: the fractions of quantiles.

Eager looks at these before it computes; what it consists of no longer does. In Dynamo's graph the
operator is still there as a whole.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.lowering.pointwise.requirements import ops

_QUANTILES = frozenset({torch.quantile, torch.nanquantile, "quantile", "nanquantile"})
#: What says where in the model a node comes from.
_PLACE = ("stack_trace", "nn_module_stack", "source_fn_stack")
_NO_FRACTION = "quantile() q values must be in the range [0, 1]"


def add_checks(gm: GraphModule) -> None:
    """Have the graph refuse the values that eager refuses; in place."""
    checked = [_check_fractions(node) for node in gm.graph.nodes if node.target in _QUANTILES]
    if any(checked):
        gm.recompile()


def _check_fractions(node: Node) -> bool:
    q = node.kwargs.get("q", node.args[1] if len(node.args) > 1 else None)
    if not isinstance(q, Node) or not isinstance(q.meta.get("example_value"), torch.Tensor):
        return False  # a number, which its shape function looks at
    with node.graph.inserting_before(node):
        least = node.graph.call_function(torch.ge, (q, 0))
        most = node.graph.call_function(torch.le, (q, 1))
        both = node.graph.call_function(torch.logical_and, (least, most))
        fractions = node.graph.call_function(ops.require.default, (q, both, _NO_FRACTION))
    for new in (least, most, both, fractions):
        new.meta = {k: v for k, v in node.meta.items() if k in _PLACE}
    fractions.meta["example_value"] = q.meta["example_value"]
    node.replace_input_with(q, fractions)
    return True
