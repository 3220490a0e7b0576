"""Guards on numbers for which a plan was specialised, stored with the plan.

Dynamo passes a Python number that changes between calls as a tensor without dimensions. Operators
that read the number itself, as ``torch.full`` and ``clamp`` do, are compiled for the number of that
call, with a guard. PyTorch's cache stores guards with its entries, but only those on sizes and
integers among the arguments: the next number would get the first one's plan. The same applies to a
tensor of the caller whose number an operator takes (``torch.add(x, y, alpha=t)``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.source import LocalSource
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from ocl_inductor.support.torch_versions import node_hint

#: For each input the symbolic number that it is or holds, or None. Empty where no tensor holds one:
#: then PyTorch stores all guards itself.
Numbers = tuple[torch.SymInt | torch.SymFloat | None, ...]


def numbers_of(gm: GraphModule) -> Numbers:
    """The numbers of a Dynamo graph, which AOTAutograd may have wrapped."""
    placeholders = getattr(gm, "gm", gm).graph.find_nodes(op="placeholder")
    leaves = list(_leaves(tree_leaves([p.meta.get("example_value") for p in placeholders])))
    numbers = tuple(map(_number, leaves))
    held = (n for x, n in zip(leaves, numbers, strict=True) if isinstance(x, torch.Tensor))
    return numbers if any(n is not None for n in held) else ()


def guards_on(numbers: Numbers) -> str | None:
    """The current guards on them, as a Python expression; None for no guards.

    Raises PyTorch's error where it cannot express them.
    """
    known = [n for n in numbers if n is not None]
    if not known:
        return None
    env = known[0].node.shape_env
    sources = [LocalSource(f"t{position}") for position in range(len(numbers))]
    symbols = {n.node.expr for n in known}
    about = [g for g in env.guards if env.simplify(g.expr).free_symbols <= symbols]
    guards = env.produce_guards(numbers, sources, guards=about)
    # No symbolic number is nan. Checking that would add a guard on its value.
    return " and ".join(g for g in guards if not g.startswith("not math.isnan(")) or None


def allow(guards: str | None, numbers: Numbers) -> bool:
    """Whether the values of ``numbers`` in this call satisfy ``guards``. Adds no guards."""
    if guards is None:
        return True
    hints = [None if n is None else node_hint(n.node) for n in numbers]
    try:
        return bool(_evaluate(guards, hints, numbers))
    except TypeError:  # a number where there is none, as for nan
        return False


def add_guards(guards: str | None, numbers: Numbers) -> None:
    """Make Dynamo check ``guards``, which ``numbers`` satisfy, before later calls."""
    if guards is not None and not bool(_evaluate(guards, numbers, numbers)):
        raise RuntimeError(f"this plan is for other numbers: {guards}")


def _evaluate(guards: str, values: Sequence[object], numbers: Numbers) -> object:
    env = next(n for n in numbers if n is not None).node.shape_env
    return env.evaluate_guards_expression(guards, values)


def _leaves(inputs: Sequence[object]) -> Iterator[Any]:
    """The inputs, with tensor subclasses replaced by their inner tensors."""
    for x in inputs:
        if isinstance(x, torch.Tensor) and is_traceable_wrapper_subclass(x):
            names, _ = x.__tensor_flatten__()  # type: ignore[attr-defined]
            yield from _leaves([getattr(x, name) for name in names])
        else:
            yield x


def _number(x: object) -> torch.SymInt | torch.SymFloat | None:
    """The number that ``x`` is or holds, if guards are possible: the compiler knows its value."""
    number = x.item_memo if isinstance(x, FakeTensor) else x
    known = isinstance(number, torch.SymInt | torch.SymFloat) and number.node.has_hint()
    return number if known else None
