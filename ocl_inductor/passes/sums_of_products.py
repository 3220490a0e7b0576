"""Sums of matrix products become one product of their concatenated operands.

The weight of a recurrent layer gets a part of its gradient from each time step: a product with a
small K, as large as the weight, and added to the sum so far. With a batch of one that is a column
times a row. Concatenated along K the columns and rows are two matrices, and the sum is written once
instead of being written, read and added to at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.fx.new_nodes import call_before

aten = torch.ops.aten

#: A product is joined where it has at least this many times the elements of its operands, which
#: stay in memory until the last product and are copied to be concatenated.
_TIMES = 8


@dataclass(frozen=True, slots=True)
class _Product:
    """A matrix product among the terms of a sum; ``flipped``: it is added as its transpose."""

    term: Node
    product: Node
    flipped: bool


def join_sums_of_products(gm: GraphModule) -> GraphModule:
    """``a0 @ b0 + a1 @ b1 + c``: ``cat([a0, a1], 1) @ cat([b0, b1], 0) + c``."""
    seen: set[Node] = set()
    for node in reversed(gm.graph.find_nodes(op="call_function", target=aten.add.Tensor)):
        if node in seen or not _is_sum(node):
            continue
        terms, sums = _terms(node)
        seen |= sums
        products = [p for term in terms if (p := _product(term, terms)) is not None]
        for flipped in (False, True):
            alike = [p for p in products if p.flipped is flipped]
            if len(alike) > 1:
                first, *others = (p.term for p in alike)
                terms[terms.index(first)] = _joined(node, alike)
                terms = [t for t in terms if t not in others]
        if len(terms) <= len(sums):
            _replace(node, terms)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _is_sum(node: Node) -> bool:
    """Whether it adds two matrices of one known size and floating dtype, as they are."""
    if node.target is not aten.add.Tensor or len(node.args) != 2 or node.kwargs:
        return False
    if not all(isinstance(a, Node) for a in node.args):
        return False
    total, *parts = (n.meta.get("val") for n in (node, *node.args))  # type: ignore[union-attr]
    return _is_matrix(total) and all(
        _is_matrix(p) and p.shape == total.shape and p.dtype is total.dtype for p in parts
    )


def _is_matrix(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 2
        and value.is_floating_point()
        and all(isinstance(s, int) for s in value.shape)
    )


def _terms(root: Node) -> tuple[list[Node], set[Node]]:
    """What ``root`` adds up in the end, and the sums on the way that nothing else reads."""
    terms: list[Node] = []
    sums: set[Node] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is root or (_is_sum(node) and len(node.users) == 1 and node not in sums):
            sums.add(node)
            waiting += reversed(node.args)  # type: ignore[arg-type]
        else:
            terms.append(node)
    return terms, sums


def _product(term: Node, terms: Sequence[Node]) -> _Product | None:
    """The product that ``term`` is, where nothing else reads it and its operands are small."""
    node, flipped = term, False
    while _is_transposition(node) and len(node.users) == 1:
        node, flipped = node.args[0], not flipped  # type: ignore[assignment]
    if node.target is not aten.mm.default or len(node.users) != 1:
        return None
    if len(term.users) != 1 or terms.count(term) > 1:
        return None
    m, k = node.args[0].meta["val"].shape  # type: ignore[union-attr]
    n = node.args[1].meta["val"].shape[1]  # type: ignore[union-attr]
    small = isinstance(k, int) and _TIMES * k * (m + n) <= m * n
    return _Product(term, node, flipped) if small else None


def _is_transposition(node: Node) -> bool:
    """Whether it exchanges the two dimensions of a matrix."""
    match node.target:
        case aten.t.default:
            return True
        case aten.permute.default:
            return [d % 2 for d in node.args[1]] == [1, 0]  # type: ignore[operator, union-attr]
        case aten.transpose.int:
            return node.args[1] % 2 != node.args[2] % 2  # type: ignore[operator]
    return False


def _joined(before: Node, products: Sequence[_Product]) -> Node:
    """The sum of ``products``, computed in front of ``before``."""
    lefts = [p.product.args[0] for p in products]
    rights = [p.product.args[1] for p in products]
    if all(_is_transposition(x) for x in lefts):  # type: ignore[arg-type]
        rows = call_before(before, aten.cat.default, [x.args[0] for x in lefts], 0)  # type: ignore[union-attr]
        left = call_before(before, aten.permute.default, rows, [1, 0])
    else:
        left = call_before(before, aten.cat.default, lefts, 1)
    right = call_before(before, aten.cat.default, rights, 0)
    total = call_before(before, aten.mm.default, left, right)
    if products[0].flipped:
        return call_before(before, aten.permute.default, total, [1, 0])
    return total


def _replace(root: Node, terms: Sequence[Node]) -> None:
    """``root`` becomes the sum of ``terms``, unless that would lie in memory in another order."""
    total, *rest = terms
    for term in rest:
        total = call_before(root, aten.add.Tensor, total, term)
    if total.meta["val"].stride() == root.meta["val"].stride():
        root.replace_all_uses_with(total)
