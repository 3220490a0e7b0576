"""FX-to-FX passes, run in the order of ``PASSES``."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule

from ocl_inductor.passes.accumulate import scatter_into_sums
from ocl_inductor.passes.attention import fuse_attention
from ocl_inductor.passes.effects import remove_effect_tokens
from ocl_inductor.passes.replace_random import replace_random
from ocl_inductor.passes.sums_of_products import join_sums_of_products
from ocl_inductor.passes.waits import read_after_waiting
from ocl_inductor.passes.written_captures import return_written_captures


def remove_dead_code(gm: GraphModule) -> GraphModule:
    """Drop what nothing uses; operators with effects stay."""
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


#: Attention comes after dead code, whose users would count as readers of its scores.
#: Dead code is removed after passes that leave unused nodes and before the tokens: it goes by
#: users, and a check without its token has none. Random operators of a graph with a backward are
#: replaced earlier (capture/autograd.py).
PASSES: tuple[Callable[[GraphModule], GraphModule], ...] = (
    replace_random,
    return_written_captures,
    remove_dead_code,
    fuse_attention,
    scatter_into_sums,
    join_sums_of_products,
    remove_effect_tokens,
    read_after_waiting,
)


_DONE = "ocl_inductor_passes"


def run_passes(gm: GraphModule) -> GraphModule:
    """``gm``, or a replacement; a graph that was processed before is returned unchanged."""
    if gm.meta.get(_DONE):
        return gm
    for fx_pass in PASSES:
        gm = fx_pass(gm)
    gm.meta[_DONE] = True
    return gm
