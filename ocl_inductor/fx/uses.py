"""Who reads the result of a traced operator, and how often: what decides where it is kept."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node as FxNode

from ocl_inductor.operators.written_attention import written_attention

#: Operators that only rename a tensor: a use through them is a use of what they view.
VIEW_OPERATORS = frozenset(
    {
        torch.ops.aten.view.default,
        torch.ops.aten._unsafe_view.default,
        torch.ops.aten.permute.default,
        torch.ops.aten.transpose.int,
        torch.ops.aten.t.default,
        torch.ops.aten.expand.default,
        torch.ops.aten.unsqueeze.default,
        torch.ops.aten.squeeze.dim,
        torch.ops.aten.squeeze.dims,
        torch.ops.aten.slice.Tensor,
        torch.ops.aten.select.int,
        torch.ops.aten.alias.default,
        torch.ops.aten.detach.default,
        operator.getitem,
    }
)

#: Views that come in pieces.
SPLITS = frozenset(
    {
        torch.ops.aten.unbind.int,
        torch.ops.aten.split.Tensor,
        torch.ops.aten.split_with_sizes.default,
    }
)

#: Operators whose kernel reads its operands where they lie, as strided views.
ATTENTION = frozenset(
    {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops.aten._scaled_dot_product_attention_math.default,
        torch.ops.aten.scaled_dot_product_attention.default,
        written_attention,
    }
)

#: Operators whose kernel reads matrices, or the pixels of an image, from memory.
PRODUCTS = frozenset(
    {
        torch.ops.aten.addmm.default,
        torch.ops.aten.baddbmm.default,
        torch.ops.aten.bmm.default,
        torch.ops.aten.convolution.default,
        torch.ops.aten.linear.default,
        torch.ops.aten.mm.default,
    }
)


def effective_uses(node: FxNode) -> int:
    """How many times the data is really read: views count with the uses of the view."""
    count = 0
    for user in node.users:
        count += effective_uses(user) if user.target in VIEW_OPERATORS else 1
    return count


def writes_input(node: FxNode) -> bool:
    """Whether it stands for a tensor of the caller being written: the end of a functional graph.

    What it returns is the input, for the graph to return.
    """
    return (
        node.target is torch.ops.aten.copy_.default
        and isinstance(node.args[0], FxNode)
        and isinstance(node.args[1], FxNode)
        and node.args[0].op == "placeholder"
        and all(u.op == "output" for u in node.users)
    )


def wanted_in_memory(node: FxNode) -> bool:
    """Whether a template reads the data where they lie, and storing them whole pays.

    For attention it does always, as its operands are views. For products it does where the data are
    read once more: computing them again reads all that they are made of.
    """
    return _feeds(node, ATTENTION) or (effective_uses(node) > 1 and _feeds(node, PRODUCTS))


def _feeds(node: FxNode, operators: frozenset[object]) -> bool:
    """Whether one of ``operators`` reads the data, through views or in pieces."""
    return any(
        u.target in operators
        or ((u.target in VIEW_OPERATORS or u.target in SPLITS) and _feeds(u, operators))
        for u in node.users
    )


def item_uses(node: FxNode, position: int) -> int:
    """The same for one of several results."""
    return sum(
        effective_uses(u)
        for u in node.users
        if u.target is operator.getitem and u.args[1] == position
    )
