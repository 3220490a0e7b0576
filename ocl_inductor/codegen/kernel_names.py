"""Names: of kernels for people, of buffers so that equal kernels have equal text."""

from __future__ import annotations

import re
from typing import Any

from ocl_inductor.schedule.groups import LoopGroup

_BUFFER_NAME = re.compile(r"(?<![A-Za-z0-9])(?:buf|in|const|host)\d+(?:_\d+)*(?![A-Za-z0-9])")


def kernel_name(group: LoopGroup | Any) -> str:
    """A readable name: the template or shape of loop, and the operators inside."""
    operators = []
    for text in group.origin.operators:
        parts = text.split(".")
        operators.append(parts[1] if parts[0] in ("aten", "prims") and len(parts) > 1 else parts[0])
    words = [re.sub(r"\W", "", w).strip("_") for w in dict.fromkeys(operators)]
    if isinstance(group, LoopGroup):
        kinds = {m.kind for m in group.members} - {"pointwise"}
        head = "_".join(sorted(kinds)) or "pointwise"
    else:
        head = group.template.spec
    shown = words if len(words) <= 5 else [*words[:4], "etc"]
    return "_".join([head, *shown])[:96]


def canonical_names(text: str) -> str:
    """Number buffers by first appearance, so that equal kernels have equal text."""
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match.group(0), f"arg{len(names)}")

    return _BUFFER_NAME.sub(rename, text)
