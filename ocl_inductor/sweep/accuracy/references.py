"""What backends are compared with, made once for all backends of a row.

Each backend is checked in a process of its own; eager's two runs and the one in float64 are the
same for all of them, and the longest part of many rows. So the first process leaves their results
in a file for the next. The file belongs to one row, mode, dtype and batch of one sweep.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ocl_inductor.sweep.accuracy.on_disk import bytes_of

Named = dict[str, Any]
#: More is made anew: gradients of the largest models in float64 would fill a small disk.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class References:
    """Named results of one row.

    Attributes:
        eager: of eager, which agreed with itself.
        wide: in float64; None where the model cannot run in it.
    """

    eager: Named
    wide: Named | None


def load_references(file: str | None) -> References | None:
    """What an earlier process left; None where there is nothing."""
    if file is None or not Path(file).exists():
        return None
    found = torch.load(file, weights_only=True)
    return References(found["eager"], found["wide"])


def save_references(file: str | None, references: References) -> None:
    """Leave them for the next process, unless they are too large or there is no file for them."""
    if file is None or _bytes(references) > _MOST_BYTES:
        return
    part = f"{file}.part"
    torch.save({"eager": references.eager, "wide": references.wide}, part)
    os.replace(part, file)  # a process that is stopped here leaves nothing half written


def _bytes(references: References) -> int:
    return bytes_of((*references.eager.values(), *(references.wide or {}).values()))
