"""Custom operators that write to their arguments, in the functional form AOTAutograd gives them."""

from __future__ import annotations

import torch
from torch.fx import Node

from ocl_inductor.plan.rebased import Rebased

AUTO_FUNCTIONALIZED = (
    torch.ops.higher_order.auto_functionalized,
    torch.ops.higher_order.auto_functionalized_v2,
)


def functionalized(node: Node) -> object:
    """The operator of a call of ``auto_functionalized_v2``, for the runtime.

    It describes views by where they begin in their base's memory. An input may begin elsewhere at
    each call, so the runtime has to give each base the beginning that it was traced with.
    """
    bases = node.kwargs.get("_all_bases", ())
    offsets = tuple(_offset(base) for base in bases)  # type: ignore[union-attr]
    return Rebased(node.target, str(node.args[0]), offsets)


def _offset(base: object) -> int | None:
    fake = base.meta["val"] if isinstance(base, Node) else None
    offset = fake.storage_offset() if isinstance(fake, torch.Tensor) else None
    return offset if isinstance(offset, int) else None
