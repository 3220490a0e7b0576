"""Results that are views of inputs to which the graph gives new contents.

AOTAutograd returns a view of the input itself. Where it cannot make that as the program did, with
symbolic sizes, it takes strides and offset of the result that it gets from here: so that has to be
a view of the input, too. In the graph it is one of the new contents, which lie in memory of their
own, without the input's offset and, after most operators, without its gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node as FxNode

from ocl_inductor.fx.marks import RENEWED, VIEWED
from ocl_inductor.ir.index import (
    Size,
    as_size,
    coefficients,
    delinearize,
    linear,
    loop_vars,
    simplify,
)
from ocl_inductor.ir.nodes import GraphOutput
from ocl_inductor.lowering.core.fakes import same_strides, storage_of
from ocl_inductor.lowering.core.values import ZERO, Value
from ocl_inductor.lowering.graph.walk import Walk
from ocl_inductor.lowering.views.as_strided import dense_order


def views_of_renewed(
    walk: Walk, output: FxNode, written: Sequence[tuple[FxNode, FxNode]]
) -> dict[int, GraphOutput]:
    """These results by position.

    ``written``: placeholders with what the graph itself puts there; AOTAutograd puts the others.
    """
    results = output.args[0]
    assert isinstance(results, (tuple, list))
    inputs = walk.gm.graph.find_nodes(op="placeholder")
    renewed = {inputs[i]: results[n] for i, n in output.meta.get(RENEWED, {}).items()}
    renewed |= dict(written)
    found: dict[int, GraphOutput] = {}
    for n, i in output.meta.get(VIEWED, {}).items():
        result, contents = results[n], renewed.get(inputs[i])
        if isinstance(result, FxNode) and isinstance(contents, FxNode):
            view = _view(walk, result, inputs[i], contents)
            if view is not None:
                found[n] = view
    return found


def _view(walk: Walk, result: FxNode, given: FxNode, contents: FxNode) -> GraphOutput | None:
    """The result as a view of the input; None if it is no view of the new contents."""
    target = walk.env[given]
    if not isinstance(target, Value) or not isinstance(walk.env[result], Value):
        return None
    if target.body.op != "load":
        return None
    fake, old, new = (n.meta["val"] for n in (result, given, contents))
    if storage_of(fake) != storage_of(new) or fake.dtype != old.dtype:
        return None
    size, stride = _sizes(walk, fake.shape), _sizes(walk, fake.stride())
    offset = walk.size(fake.storage_offset() - new.storage_offset())
    old_stride = _sizes(walk, old.stride())
    if not same_strides(target.size, old_stride, _sizes(walk, new.stride())):
        # By the coordinates of an element in the new contents, and where those are in the input.
        order = dense_order(new)
        if order is None:
            return None
        variables = loop_vars(len(size))
        position = linear(variables, stride, offset)
        coordinates = delinearize(position, [target.size[d] for d in order])
        address = linear(coordinates, [old_stride[d] for d in order])
        affine = coefficients(simplify(address, dict(zip(variables, size))), variables)
        if affine is None or affine[1].free_symbols & {*variables}:
            return None
        stride = [as_size(affine[0].get(v, ZERO)) for v in variables]
        offset = as_size(affine[1])
    return GraphOutput("buffer", target.body.payload.buffer, tuple(size), tuple(stride), offset)


def _sizes(walk: Walk, sizes: Sequence[int | torch.SymInt]) -> list[Size]:
    return [walk.size(s) for s in sizes]
