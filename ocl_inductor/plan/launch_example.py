"""One call of a kernel in plain numbers, so that the kernel can be run without its graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_TOO_MANY = 1 << 63


@dataclass(frozen=True, slots=True)
class LaunchExample:
    """Arguments in order: buffers, then ``scalars`` (64-bit), then ``literals`` (32-bit).

    ``buffers``: (element type as torch names it, number of elements). ``flops`` counts arithmetic
    operations and ``bytes`` each buffer read or written once; 0 where it is not known. Symbolic
    sizes have the values of the inputs that the graph was captured with.
    """

    buffers: tuple[tuple[str, int], ...]
    scalars: tuple[int, ...]
    literals: tuple[int, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    flops: int = 0
    bytes: int = 0

    def as_dict(self) -> dict[str, object]:
        """For JSON; ``from_dict`` reads it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LaunchExample:
        """Raises KeyError, TypeError or ValueError where ``data`` did not come from ``as_dict``."""
        local = data["local_size"]
        return cls(
            tuple((str(kind), _count(elements)) for kind, elements in data["buffers"]),
            tuple(map(int, data["scalars"])),
            tuple(map(int, data["literals"])),
            tuple(map(_count, data["global_size"])),
            None if local is None else tuple(map(_count, local)),
            _count(data["flops"]),
            _count(data["bytes"]),
        )


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number < _TOO_MANY:
        raise ValueError(f"{value!r} is no number of things that there are")
    return number
