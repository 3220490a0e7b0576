"""Readers of a tensor that a collective writes read what ``wait_tensor`` returns."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from ocl_inductor.fx.in_flight import receives, waits
from ocl_inductor.fx.uses import writes_input


def read_after_waiting(gm: GraphModule) -> GraphModule:
    """Readers of a tensor after a ``wait_tensor`` of it read the result of that.

    It is the same tensor in eager; so is what ``irecv`` returns and the tensor that it was told to
    fill. Here only the result of the wait can be read by kernels, and only reading it makes a
    kernel wait.
    """
    order = {node: n for n, node in enumerate(gm.graph.nodes)}
    for node in gm.graph.nodes:
        if receives(node) or waits(node):
            _replace_after(node, node.all_input_nodes[0], order)
    return gm


def _replace_after(node: Node, taken: Node, order: dict[Node, int]) -> None:
    """Make what reads ``taken`` after ``node`` read ``node``; results of the graph stay."""
    for user in list(taken.users):
        kept = user.op == "output" or (writes_input(user) and user.args[0] is taken)
        if order[user] > order[node] and not kept:
            user.replace_input_with(taken, node)
