"""Names of kernels, for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ocl_inductor.schedule.groups import LoopGroup

#: Operators that only change the order of reads; a kernel is not named after them.
_NOT_NAMED = frozenset(
    "alias clone detach expand getitem permute reshape select slice split squeeze t transpose "
    "unsafe_view unsqueeze view".split()
)


def kernel_name(group: LoopGroup | Any, operators: Sequence[str]) -> str:
    """A readable name: the template or shape of loop, and the ``operators`` inside."""
    words = [w for w in dict.fromkeys(map(_word, operators)) if w not in _NOT_NAMED]
    if isinstance(group, LoopGroup):
        kinds = {m.kind for m in group.members} - {"pointwise"}
        head = "_".join(sorted(kinds)) or "pointwise"
    else:
        head = group.template.spec
    shown = words if len(words) <= 5 else [*words[:4], "etc"]
    return "_".join([head, *shown])[:96]


def _word(operator: str) -> str:
    parts = operator.split(".")
    name = parts[1] if parts[0] in ("aten", "prims") and len(parts) > 1 else parts[0].split()[-1]
    return re.sub(r"\W", "", name).strip("_")
