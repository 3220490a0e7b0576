"""Max pooling whose gradient needs a byte for each window, and not the input.

Runs on the joint graph, before it is split into forward and backward. ATen's gradient takes the
positions of the maxima, 8 bytes each, and the input, of which it needs only the size: both would be
saved. Without the input, the ReLU in front of a pooling layer can be recomputed in the backward
graph. The operators are in ``lowering/pooling/offsets.py``.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.fx.new_nodes import call_before
from ocl_inductor.ir.dtypes import SUPPORTED_DTYPES
from ocl_inductor.operators.arguments import bind, per_dim
from ocl_inductor.operators.max_pool import MAX_UNROLLED_POINTS, ops

aten = torch.ops.aten

#: Poolings, each with its gradient and its number of dimensions.
_POOLINGS = {
    aten.max_pool2d_with_indices.default: (aten.max_pool2d_with_indices_backward.default, 2),
    aten.max_pool3d_with_indices.default: (aten.max_pool3d_with_indices_backward.default, 3),
}


@dataclass(frozen=True, slots=True)
class _Pooling:
    """One max pooling: its results, and the gradients that read the second one."""

    node: Node
    values: Node | None
    positions: Node
    gradients: tuple[Node, ...]
    windows: tuple[Any, ...]


def save_offsets(gm: GraphModule) -> GraphModule:
    """Rewrite, in place, each max pooling whose positions only its gradient reads."""
    found = [
        pooling
        for target in _POOLINGS
        for node in gm.graph.find_nodes(op="call_function", target=target)
        if (pooling := _pooling(node)) is not None
    ]
    for pooling in found:
        _replace(pooling)
    if found:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return gm


def _pooling(node: Node) -> _Pooling | None:
    """``node``, if its positions can be offsets: in small windows without holes."""
    gradient, n = _POOLINGS[node.target]
    arguments = bind(node.target, node.args, node.kwargs)
    results = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    positions = results.get(1)
    kernel = per_dim(arguments["kernel_size"], n)
    if (
        positions is None
        or len(results) < len(node.users)
        or not positions.users
        or any(
            user.target is not gradient or user.args[-1] is not positions
            for user in positions.users
        )
        or math.prod(kernel) > MAX_UNROLLED_POINTS
        or per_dim(arguments["dilation"], n) != [1] * n
        or arguments["self"].meta["val"].dtype not in SUPPORTED_DTYPES
    ):
        return None
    stride = per_dim(arguments["stride"], n, kernel)
    padding = per_dim(arguments["padding"], n)
    windows = (kernel, stride, padding, arguments["ceil_mode"])
    return _Pooling(node, results.get(0), positions, tuple(positions.users), windows)


def _replace(pooling: _Pooling) -> None:
    node = pooling.node
    x = node.args[0]
    assert isinstance(x, Node)
    both = call_before(node, ops.max_pool.default, x, *pooling.windows)
    values, offsets = (call_before(node, operator.getitem, both, n) for n in (0, 1))
    values.meta["val"] = node.meta["val"][0]  # with eager's strides
    if pooling.values is not None:
        pooling.values.replace_all_uses_with(values)
    size = _size(node, x)
    for gradient in pooling.gradients:
        made = call_before(
            gradient,
            ops.max_pool_backward.default,
            gradient.args[0],
            offsets,
            size,
            *pooling.windows,
        )
        made.meta["val"] = gradient.meta["val"]
        gradient.replace_all_uses_with(made)


def _size(node: Node, x: Node) -> list[object]:
    """The size of ``x``: numbers, and nodes in front of ``node`` for what is symbolic."""
    return [
        n if isinstance(n, int) else call_before(node, aten.sym_size.int, x, d)
        for d, n in enumerate(x.meta["val"].shape)
    ]
