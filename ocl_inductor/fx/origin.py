"""Where in the user's program a node comes from."""

from __future__ import annotations

import operator
from pathlib import Path

from torch.fx import Node as FxNode

from ocl_inductor.ir.nodes import Origin

#: Where functions lie that Dynamo traces in place of PyTorch's: no lines of the model.
_TRACED_INSTEAD = str(Path(__file__).parents[1] / "capture")


def origin_of(node: FxNode) -> Origin:
    """The operator that a node is, and the line of the model that it comes from."""
    lines = [x.strip() for x in (node.meta.get("stack_trace") or "").splitlines()]
    # An FX stack trace ends with the innermost user frame: its "File ..." line, its code, and in
    # newer Pythons a line of marks below the code.
    frames = [n for n, line in enumerate(lines) if line.startswith("File ")]
    frames = [n for n in frames if _TRACED_INSTEAD not in lines[n]] or frames
    source = ": ".join(lines[frames[-1] : frames[-1] + 2]) if frames else ""
    made = node.args[0] if node.target is operator.getitem else node
    target = made.target if isinstance(made, FxNode) else node.target
    return Origin((node.name,), (str(target),), source)
