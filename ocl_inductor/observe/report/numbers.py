"""Numbers as people read them."""

from __future__ import annotations


def count_text(n: float | None) -> str:
    """Three digits and a decimal prefix: ``1.23 G``; a space, then no prefix below 1000."""
    if n is None:
        return "? "
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= factor:
            return f"{n / factor:.3g} {prefix}"
    return f"{n:.3g} "


def size_bytes(n: int | None) -> str:
    """Bytes with a binary prefix: ``12.3 MiB``."""
    if n is None:
        return "?"
    for factor, prefix in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= factor:
            return f"{n / factor:.1f} {prefix}"
    return f"{n} B"


def time_text(seconds: float) -> str:
    """``12.3 µs``."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def of(n: int, what: str) -> str:
    """``1 graph``, ``2 graphs``."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
