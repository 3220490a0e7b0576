"""FX-to-FX passes, run in the order of ``PASSES``."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule


def remove_dead_code(gm: GraphModule) -> GraphModule:
    """Drop what nothing uses; operators with effects stay."""
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


#: Last because the passes before it leave unused nodes behind.
PASSES: tuple[Callable[[GraphModule], GraphModule], ...] = (remove_dead_code,)


def run_passes(gm: GraphModule) -> GraphModule:
    for fx_pass in PASSES:
        gm = fx_pass(gm)
    return gm
