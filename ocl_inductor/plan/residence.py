"""Where the tensors of a plan live that works on the device ``ocl``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Residence:
    """On the device, but for some. ``from_host``: positions of inputs that are CPU tensors, None
    where that is not known; ``to_host``: positions of results that are to be CPU tensors.
    """

    from_host: tuple[int, ...] | None = None
    to_host: tuple[int, ...] = ()
