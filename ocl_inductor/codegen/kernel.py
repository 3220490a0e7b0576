"""One kernel, and its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.codegen.tree.nodes import Statement
from ocl_inductor.ir.index import Size
from ocl_inductor.ir.nodes import Origin
from ocl_inductor.plan.kernel_code import KernelCode


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel in source form.

    Arguments in order: one pointer for each of ``buffers``, one ``long`` for each of ``scalars``
    (expressions over size symbols), one ``int`` for each of ``literals``. ``global_size`` in
    work-items. ``tree``: the statements of a loop group's kernel.
    """

    code: KernelCode
    buffers: tuple[str, ...]
    scalars: tuple[sympy.Expr, ...]
    literals: tuple[int, ...]
    global_size: tuple[Size, ...]
    local_size: tuple[int, ...] | None
    origin: Origin
    dtypes: tuple[torch.dtype, ...] = ()
    tree: tuple[Statement, ...] = ()

    @property
    def name(self) -> str:
        return self.code.name
