"""Calls of operators that address their arguments from the start of their storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Rebased:
    """``operator`` with each of ``_all_bases`` at its offset (None: wherever it is)."""

    operator: Any
    name: str
    offsets: tuple[int | None, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        if self.offsets:
            bases = zip(kwargs.pop("_all_bases"), self.offsets, strict=True)
            kwargs["_all_bases"] = [_at(base, offset) for base, offset in bases]
        return self.operator(*args, **kwargs)

    def __str__(self) -> str:
        return self.name


def _at(base: Any, offset: int | None) -> Any:
    """A tensor with this offset in its storage: a copy, unless it has that offset already."""
    if offset is None or base is None or base.storage_offset() == offset or base.numel() == 0:
        return base
    reach = 1 + sum((n - 1) * s for n, s in zip(base.shape, base.stride(), strict=True))
    memory = torch.empty(offset + reach, dtype=base.dtype)
    return memory.as_strided(base.shape, base.stride(), offset).copy_(base)
