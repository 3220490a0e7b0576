"""``torch.Generator("ocl")``: a generator of the CPU's that names the device.

PyTorch makes a device's generators in C++. Random numbers on ``ocl`` come from the CPU's algorithm
on every device (``torch.manual_seed`` gives the same ones everywhere), and so do those of a
generator that a program makes for ``ocl``.
"""

from __future__ import annotations

from typing import Any

import torch

from ocl_inductor.resident.places import NAME

_Generator: Any = torch._C.Generator


class _Kind(type(_Generator)):  # type: ignore[misc]
    """``isinstance(x, torch.Generator)`` holds for generators that PyTorch makes itself, too."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, _Generator)


class Generator(_Generator, metaclass=_Kind):
    """As PyTorch's, for ``ocl`` as well."""

    def __new__(cls, device: object = "cpu") -> Any:
        where = torch.device(device)
        if where.type != NAME:
            return _Generator(where)
        made = super().__new__(cls, device="cpu")
        made._place = where if where.index is not None else torch.device(NAME, 0)
        return made

    @property
    def device(self) -> torch.device:
        """The device that it was made for."""
        return self._place  # type: ignore[no-any-return]


def make_generators_here() -> None:
    """Replace ``torch.Generator``."""
    torch.Generator = Generator  # type: ignore[misc]
