"""The caches of a processor's first core, as Linux lists them below /sys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_LISTED = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Caches:
    """Bytes: ``l1`` for data, ``l2`` of one core, ``l3`` that cores share, ``line`` of the first.

    The defaults apply where the system does not tell: they are those of the processors on which the
    backend's choices were measured.
    """

    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    line: int = 64


def cpu_caches() -> Caches:
    """This machine's."""
    found: dict[str, int] = {}
    for cache in _LISTED.glob("index*"):
        try:
            level, kind, size = ((cache / f).read_text().strip() for f in ("level", "type", "size"))
            nbytes = int(size.removesuffix("K")) << 10
        except (OSError, ValueError):
            continue  # missing, or in another format
        if kind != "Instruction" and level in "123" and nbytes > 0:
            found[f"l{level}"] = nbytes
            if level == "1":
                found |= _line(cache)
    return Caches(**found)


def _line(cache: Path) -> dict[str, int]:
    """The bytes of a line, where they are reported and a power of two."""
    try:
        nbytes = int((cache / "coherency_line_size").read_text())
    except (OSError, ValueError):
        return {}
    return {"line": nbytes} if 16 <= nbytes <= 256 and nbytes.bit_count() == 1 else {}
