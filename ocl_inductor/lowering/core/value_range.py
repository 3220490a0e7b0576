"""What is known of an integer before anything runs: its least and its greatest value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch

from ocl_inductor.ir.expr import Expr, walk
from ocl_inductor.ir.index import Ranges, interval, is_static, prod
from ocl_inductor.ir.nodes import Loop, Node

#: Both ends included.
Range: TypeAlias = tuple[int, int]

#: Ways of a loop to fold its body that give values of the body.
_CHOOSES = frozenset({"", "max", "min"})


def value_range(e: Expr, ranges: Ranges, nodes: Sequence[Node] = ()) -> Range:
    """The values of an integer or truth value ``e`` over loop variables of ``ranges``.

    ``nodes``: those that write what ``e`` loads. The limits of the dtype, where nothing is known.
    """
    known: dict[Expr, Range] = {}
    for node in walk(e):
        if not node.dtype.is_floating_point:
            limits, found = _limits(node.dtype), _range(node, known, ranges, nodes)
            # What leaves the limits wraps around.
            inside = found is not None and limits[0] <= found[0] and found[1] <= limits[1]
            known[node] = found if found is not None and inside else limits
    return known[e]


def _limits(dtype: torch.dtype) -> Range:
    if dtype is torch.bool:
        return 0, 1
    of = torch.iinfo(dtype)
    return of.min, of.max


def _range(
    e: Expr, known: Mapping[Expr, Range], ranges: Ranges, nodes: Sequence[Node]
) -> Range | None:
    if e.op == "const":
        return int(e.payload), int(e.payload)
    if e.op == "index":
        return interval(e.payload, ranges)
    if e.op == "load":
        return _stored(e, nodes)
    if e.dtype is torch.bool or not all(a in known for a in e.args):
        return None
    args = [known[a] for a in e.args]
    if e.op in ("where", "masked"):
        return min(args[1][0], args[2][0]), max(args[1][1], args[2][1])
    return _computed(e.op, args[0], args[-1])


def _computed(op: str, a: Range, b: Range) -> Range | None:
    """The result of an operation on integers without limits."""
    match op:
        case "cast":
            return a
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "minimum":
            return min(a[0], b[0]), min(a[1], b[1])
        case "maximum":
            return max(a[0], b[0]), max(a[1], b[1])
        case "remainder" if b[0] > 0:
            return 0, (b[1] - 1 if a[0] < 0 else min(a[1], b[1] - 1))
        case "floor_div" if b[0] > 0 and a[0] >= 0:
            return a[0] // b[1], a[1] // b[0]
    return None


def _stored(e: Expr, nodes: Sequence[Node]) -> Range | None:
    """What a loop of the graph has written to memory."""
    name = e.payload.buffer
    node = next((n for n in reversed(nodes) if any(b.name == name for b in n.writes())), None)
    if not isinstance(node, Loop) or node.base:
        return None
    if node.how in ("argmax", "argmin"):
        extent = prod(node.reduction_ranges)
        return (0, max(int(extent) - 1, 0)) if is_static(extent) else None
    if node.how in _CHOOSES and node.body.dtype == node.buffer.dtype:
        return value_range(node.body, node.var_ranges)
    return None
