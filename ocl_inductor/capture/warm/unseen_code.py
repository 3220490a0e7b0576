"""Code that a plan would contain, but that is not part of its key.

The key has the text of Dynamo's graph. AOTAutograd then traces into functions that were kept opaque
(``allow_in_graph``), gradients and decompositions of custom operators, and dispatch functions of
tensor subclasses. Such code is the user's. It may differ in the next process, or read something
that does, while the text stays the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

#: Operators of PyTorch, and ours, whose code is in the key. Others may be defined differently in
#: each process.
_BUILT_IN = frozenset(
    {"aten", "prims", "prim", "higher_order", "rngprims", "quantized", "mkldnn", "ocl_inductor"}
)

#: Modules of compiled functions that PyTorch's check accepts without inspection.
_COMPILED_IN = frozenset({"torch", "builtins", "math", "operator", "_operator"})

#: Kernels that AOTAutograd traces, as torch.library names them.
_TRACED = ("Autograd", "Composite")


def why_not_storable(gm: GraphModule, check_node: Callable[[Node], None]) -> str | None:
    """Why a plan of this graph must not outlive the process; None if it may.

    ``check_node``: PyTorch's own check, which raises; PyTorch omits nested graphs, such as the
    bodies of checkpoints and branches.
    """
    for node in _nodes(gm):
        if node.op == "call_function":
            reason = _unseen_function(node.target)
            if reason is not None:
                return reason
        kind = _unseen_subclass(node.meta.get("example_value"))
        if kind is not None:
            return f"tensor subclass {kind.__qualname__}, which says what operators do"
        try:
            check_node(node)
        except Exception as error:
            return str(error)
    return _changed_operator() or _lowering_from_outside()


def _nodes(gm: GraphModule) -> Iterator[Node]:
    for module in gm.modules():
        if isinstance(module, GraphModule):
            yield from module.graph.nodes


def _unseen_function(target: object) -> str | None:
    namespace = _namespace(target)
    if namespace is not None:
        return None if namespace in _BUILT_IN else f"custom operator {target}"
    if type(target).__name__ == "builtin_function_or_method":
        module = getattr(target, "__module__", None) or "torch"
        return None if _root(module) in _COMPILED_IN else f"function {target} of an extension"
    return None


def _namespace(target: object) -> str | None:
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target._qualified_op_name.split("::")[0]
    return None


def _unseen_subclass(value: object) -> type | None:
    """The type of a tensor, or of one of several results, that has the user's dispatch code."""
    if isinstance(value, torch.Tensor):
        kind = type(value)
        foreign = _root(kind.__module__) != "torch" and is_traceable_wrapper_subclass(value)
        return kind if foreign else None
    if isinstance(value, tuple | list):
        return next(filter(None, map(_unseen_subclass, value)), None)
    return None


def _changed_operator() -> str | None:
    """A user's kernel for one of PyTorch's operators."""
    for name in list(torch.library._impls):  # as "aten/relu/AutogradCPU"
        namespace, _, rest = name.partition("/")
        if namespace == "aten" and rest.rpartition("/")[2].startswith(_TRACED):
            return f"{name} from outside PyTorch"
    return None


def _lowering_from_outside() -> str | None:
    # A lowering cannot have been registered without importing the table.
    registry = sys.modules.get("ocl_inductor.operators.registry")
    for operator, lowering in registry.LOWERINGS.items() if registry is not None else ():
        row = (lowering.__kwdefaults__ or {}).get("_row")
        function = lowering if row is None else row.compute
        if not str(getattr(function, "__module__", "")).startswith("ocl_inductor."):
            return f"lowering of {operator} from outside the package"
    return None


def _root(module: str) -> str:
    return module.partition(".")[0]
