"""What differs between the versions of PyTorch that this package runs with: known here alone.

Nothing asks for a version's number. What a version lacks is left out by feature.
"""

from __future__ import annotations

from typing import Any

import torch

#: Operators by name that this PyTorch lacks, of those that were asked for.
ABSENT: set[str] = set()


def aten_overload(name: str) -> Any:
    """``add.Tensor`` as an aten overload, no dot means ``default``; None where there is none."""
    packet, _, overload = name.partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:
        ABSENT.add(name)
        return None
