"""Calls of an inference graph without AOTAutograd's wrappers, where they have nothing to do.

The wrappers put back what functional graphs leave out: inputs that are written, results that are
views, tensor subclasses, dimensions marked as dynamic, the grad mode. A plan that makes all of its
results from plain tensors of static sizes needs none of it, and for a small model they take as
long as its kernel (4 µs; AOTAutograd's runtime wrapper and a second ``torch._dynamo.disable``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ocl_inductor.runtime.call.executor import Executor

#: A function of tensors, as Dynamo calls it.
Function = Callable[..., Any]


def without_wrappers(
    compiled: Function,
    gm: GraphModule,
    inputs: Sequence[Any],
    executor: Callable[[], Executor | None],
) -> Function:
    """``compiled``, or a function that passes by it to the executor where nothing is missed.

    ``executor``: of the only graph that ``gm`` became, if it is one for inference and ready, which
    it is after the first call; else None.
    """
    results = _results(gm)
    if not _is_plain(gm, [*inputs, *results]):
        return compiled
    numbers = len(inputs), len(results)
    asked, plain = False, None  # what to call instead of ``compiled``

    def call(*args: Any) -> Any:
        nonlocal asked, plain
        # With gradients on, the wrapper turns them off for the time of the call.
        if plain is not None and not torch.is_grad_enabled():
            return plain(*args)
        found = compiled(*args)
        if not asked:
            made, asked = executor(), True
            if made is not None and _needs_no_wrapper(made, *numbers):
                plain = made.function()
        return found

    # What the minifier and Dynamo's own cache look for, but not how Dynamo finds what it wrapped.
    hidden = ("_torchdynamo", "__wrapped__")
    call.__dict__.update({k: v for k, v in vars(compiled).items() if not k.startswith(hidden)})
    return call


def calls_directly(executor: Executor, inputs: int, outputs: int) -> bool:
    """Whether an executor is all there is to a graph that writes its inputs or makes new results,
    so that AOTAutograd has nothing to add."""
    return not executor.plan.updates and _makes_all(executor, inputs, outputs)


def _is_plain(gm: GraphModule, values: Sequence[Any]) -> bool:
    """Whether arguments and results are tensors of no subclass, and the grad mode stays."""
    return (
        all(isinstance(x, torch.Tensor) for x in values)
        and not any(map(is_traceable_wrapper_subclass, values))
        and not any(node.target is torch._C._set_grad_enabled for node in gm.graph.nodes)
    )


def _results(gm: GraphModule) -> list[Any]:
    """An example of each result; None for what is no tensor of Dynamo's."""
    (results,) = gm.graph.output_node().args
    nodes = results if isinstance(results, tuple | list) else [results]
    return [n.meta.get("example_value") if isinstance(n, Node) else None for n in nodes]


def _needs_no_wrapper(executor: Executor, inputs: int, outputs: int) -> bool:
    """Whether nothing is left to do, in a call whose inputs stay as they are."""
    return (
        executor.fast_path is not None
        and not executor.plan_index.overwritten
        and _makes_all(executor, inputs, outputs)
    )


def _makes_all(executor: Executor, inputs: int, outputs: int) -> bool:
    """Whether the plan takes and gives what the graph does, and all of its results are new."""
    plan = executor.plan
    roots = [executor.plan_index.root(o.name) for o in plan.outputs]
    made = {b.name for b in plan.buffers if b.where == "output"}
    return (
        (len(plan.inputs), len(plan.outputs)) == (inputs, outputs)
        and all(o.kind == "tensor" for o in plan.outputs)
        and len(set(roots)) == len(roots)
        and made.issuperset(roots)
    )
