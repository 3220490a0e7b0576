"""Calls of an inference graph without AOTAutograd's wrappers, where they have nothing to do.

The wrappers restore what functional graphs lack: written inputs, results that are views, tensor
subclasses, dimensions marked as dynamic, the grad mode. A plan that computes all of its results
from plain tensors of static sizes needs none of it, and for a small model they take as long as its
kernel (4 µs; AOTAutograd's runtime wrapper and a second ``torch._dynamo.disable``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ocl_inductor.runtime.call.executor import Executor

#: A function of tensors, as Dynamo calls it.
Function = Callable[..., object]


def without_wrappers(
    compiled: Function,
    gm: GraphModule,
    inputs: Sequence[object],
    executor: Callable[[], Executor | None],
) -> Function:
    """``compiled``, or a function that calls the executor directly where that is equivalent.

    ``executor``: of the only graph of ``gm``, if that is for inference and ready, which it is after
    the first call; else None.
    """
    results = _results(gm)
    if not _is_plain(gm, [*inputs, *results]):
        return compiled
    numbers = len(inputs), len(results)
    asked, plain = False, None  # ``plain``: called instead of ``compiled``

    def call(*args: object) -> Any:
        nonlocal asked, plain
        # With gradients on, the wrapper turns them off for the call.
        if plain is not None and not torch.is_grad_enabled():
            return plain(*args)
        found = compiled(*args)
        if not asked:
            made, asked = executor(), True
            if made is not None and _needs_no_wrapper(made, *numbers):
                plain = made.function()
        return found

    # Attributes for the minifier and Dynamo's own cache, without Dynamo's link to the original.
    hidden = ("_torchdynamo", "__wrapped__")
    call.__dict__.update({k: v for k, v in vars(compiled).items() if not k.startswith(hidden)})
    return call


def calls_directly(executor: Executor, inputs: int, outputs: int) -> bool:
    """Whether a graph that writes its inputs or computes new results needs only an executor, and
    no wrapper of AOTAutograd."""
    return not executor.plan.updates and _makes_all(executor, inputs, outputs)


def _is_plain(gm: GraphModule, values: Sequence[object]) -> bool:
    """Whether arguments and results are plain tensors, and the grad mode does not change."""
    return (
        all(isinstance(x, torch.Tensor) for x in values)
        and not any(map(is_traceable_wrapper_subclass, values))
        and not any(node.target is torch._C._set_grad_enabled for node in gm.graph.nodes)
    )


def _results(gm: GraphModule) -> list[Any]:
    """An example of each result; None for other values than Dynamo's tensors."""
    (results,) = gm.graph.output_node().args
    nodes = results if isinstance(results, tuple | list) else [results]
    return [n.meta.get("example_value") if isinstance(n, Node) else None for n in nodes]


def _needs_no_wrapper(executor: Executor, inputs: int, outputs: int) -> bool:
    """Whether a call that does not write inputs needs no wrapper."""
    return (
        executor.fast_path is not None
        and not executor.plan_index.overwritten
        and _makes_all(executor, inputs, outputs)
    )


def _makes_all(executor: Executor, inputs: int, outputs: int) -> bool:
    """Whether the plan has the graph's inputs and outputs, and all of its results are new."""
    plan = executor.plan
    roots = [executor.plan_index.root(o.name) for o in plan.outputs]
    made = {b.name for b in plan.buffers if b.where == "output"}
    return (
        (len(plan.inputs), len(plan.outputs)) == (inputs, outputs)
        and all(o.kind == "tensor" for o in plan.outputs)
        and len(set(roots)) == len(roots)
        and made.issuperset(roots)
    )
