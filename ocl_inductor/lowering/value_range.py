"""What is known of an integer before anything runs: its least and its greatest value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.index import Ranges, interval, is_static, prod
from ocl_inductor.ir.nodes import Loop, Node

#: Both ends included.
Range: TypeAlias = tuple[int, int]

#: Loops whose results are what their bodies are.
_COPIES = frozenset({"max", "min", ""})
#: Types that are no wider than indices usually are: their limits tell something.
_NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16)


def value_range(e: Expr, ranges: Ranges, nodes: Sequence[Node] = ()) -> Range | None:
    """The values of ``e`` over loop variables of ``ranges``; None: nothing is known of them.

    ``nodes``: those that write what ``e`` loads.
    """
    found = _range(e, ranges, nodes)
    if found is None and e.dtype in _NARROW:
        limits = None if e.dtype is torch.bool else torch.iinfo(e.dtype)
        return (0, 1) if limits is None else (limits.min, limits.max)
    return found


def _range(e: Expr, ranges: Ranges, nodes: Sequence[Node]) -> Range | None:
    if e.op == "const":
        return None if e.dtype.is_floating_point else (int(e.payload), int(e.payload))
    if e.op == "index":
        return interval(e.payload, ranges)
    if e.op == "load":
        return _stored(e, nodes)
    if e.dtype.is_floating_point or e.op == "masked":
        return None
    args = [None if a.dtype.is_floating_point else value_range(a, ranges, nodes) for a in e.args]
    if e.op == "where":
        return _either(args[1], args[2])
    known = [a for a in args if a is not None]
    if len(known) == len(args):
        return _computed(e, known)
    if e.op == "remainder" and args[1] is not None and args[1][0] > 0:
        return 0, args[1][1] - 1
    return None


def _computed(e: Expr, args: Sequence[Range]) -> Range | None:
    """The result of an operation whose operands are known; it wraps around nowhere."""
    a, b = args[0], args[-1]
    match e.op:
        case "cast":
            found: Range | None = a
        case "add":
            found = a[0] + b[0], a[1] + b[1]
        case "sub":
            found = a[0] - b[1], a[1] - b[0]
        case "mul":
            corners = [x * y for x in a for y in b]
            found = min(corners), max(corners)
        case "minimum":
            found = min(a[0], b[0]), min(a[1], b[1])
        case "maximum":
            found = max(a[0], b[0]), max(a[1], b[1])
        case "remainder" if b[0] > 0:
            found = (0, b[1] - 1) if a[0] < 0 else (0, min(a[1], b[1] - 1))
        case "floor_div" if b[0] > 0 and a[0] >= 0:
            found = a[0] // b[1], a[1] // b[0]
        case _:
            return None
    assert found is not None
    if e.dtype is torch.bool:
        return None
    limits = torch.iinfo(e.dtype)
    return found if limits.min <= found[0] and found[1] <= limits.max else None


def _either(a: Range | None, b: Range | None) -> Range | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _stored(e: Expr, nodes: Sequence[Node]) -> Range | None:
    """What a loop of the graph has written to memory."""
    name = e.payload.buffer
    node = next((n for n in reversed(nodes) if any(b.name == name for b in n.writes())), None)
    if not isinstance(node, Loop) or node.base:
        return None
    if node.how in ("argmax", "argmin"):
        extent = prod(node.reduction_ranges)
        return (0, max(int(extent) - 1, 0)) if is_static(extent) else None
    if node.how in _COPIES and node.body.dtype == node.buffer.dtype:
        return value_range(node.body, node.var_ranges, nodes)
    return None
