"""Dead-code elimination of nodes, and the execution order of kernels."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from ocl_inductor.ir.nodes import Extern, Graph, Node
from ocl_inductor.schedule.fusion_group import FusionGroup


def live_nodes(graph: Graph) -> list[Node]:
    """Nodes whose results reach an output; host calls always stay (they may have effects)."""
    wanted = {o.name for o in graph.results}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if isinstance(node, Extern) or any(b.name in wanted for b in node.writes()):
            kept.append(node)
            wanted |= node.reads()
    return list(reversed(kept))


def execution_order(
    kernels: Sequence[FusionGroup], producer: Mapping[str, FusionGroup]
) -> list[int]:
    """Kernel numbers so that producers come first, else in creation order."""
    waiting = {
        k.number: {producer[r].number for r in k.reads() if r in producer} - {k.number}
        for k in kernels
    }
    users: dict[int, list[int]] = {}
    for n, needs in waiting.items():
        for need in needs:
            users.setdefault(need, []).append(n)
    ready = [n for n, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        n = heapq.heappop(ready)
        order.append(n)
        for user in users.get(n, ()):
            waiting[user].discard(n)
            if not waiting[user]:
                heapq.heappush(ready, user)
    assert len(order) == len(kernels), "fusion made a cycle"
    return order
