"""The text of one kernel and its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.codegen.tree.nodes import Statement
from ocl_inductor.ir.index import Size
from ocl_inductor.ir.nodes import Origin


@dataclass(frozen=True, slots=True)
class Frame:
    """A kernel's parts: the text before it, its attribute, each parameter, and its body, whose
    statements are ``tree``."""

    prelude: str
    attribute: str
    declarations: tuple[str, ...]
    body: str
    tree: tuple[Statement, ...] = ()

    def text(self, name: str) -> str:
        head = f"__kernel {self.attribute}\nvoid {name}({', '.join(self.declarations)})"
        return f"{self.prelude}\n{head}\n{{\n{self.body}\n}}\n"


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel in source form.

    Arguments in order: one pointer for each of ``buffers``, one ``long`` for each of ``scalars``
    (expressions over size symbols), one ``int`` for each of ``literals``. ``global_size`` in
    work-items. ``frame``: the parts of a loop group's kernel.
    """

    name: str
    text: str
    buffers: tuple[str, ...]
    scalars: tuple[sympy.Expr, ...]
    literals: tuple[int, ...]
    global_size: tuple[Size, ...]
    local_size: tuple[int, ...] | None
    origin: Origin
    dtypes: tuple[torch.dtype, ...] = ()
    frame: Frame | None = None
