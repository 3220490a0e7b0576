"""Sizes and spans of time as people write them, both ways."""

from __future__ import annotations

import math
import re

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?\s*", re.IGNORECASE)
_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_size(text: str) -> int:
    """Bytes in ``500MB`` (decimal), ``2GiB`` (binary), ``2g`` (decimal) or ``1024``.

    Raises:
        ValueError: the text is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 500MB or 2GiB")
    base = 1024 if found[3] else 1000
    power = " kmgt".index(found[2].lower()) if found[2] else 0
    return int(float(found[1]) * base**power)


def parse_age(text: str) -> float:
    """Seconds in ``90s``, ``45m``, ``12h``, ``30d`` or ``2w``.

    Raises:
        ValueError: the text is no span of time.
    """
    found = _AGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an age such as 12h, 30d or 2w")
    return float(found[1]) * _SECONDS[found[2].lower()]


def format_size(nbytes: float) -> str:
    """``5.2 MB``: three digits or so, decimal units, as ``parse_size`` reads them."""
    value, unit = float(nbytes), 0
    while value >= 999.5 and unit < 4:
        value, unit = value / 1000, unit + 1
    name = ("B", "kB", "MB", "GB", "TB")[unit]
    digits = 1 if unit and value < 99.95 else 0
    return f"{value:.{digits}f} {name}"


def format_seconds(seconds: float) -> str:
    """``12 µs``, ``3.4 ms``, ``1.2 s``: how long something took."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds * 1e9:.3g} ns" if seconds > 0 else "0 s"


def format_age(seconds: float) -> str:
    """``5 min``, ``3 h``, ``12 d``: how long ago, in one number."""
    for unit, scale in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= scale:
            return f"{math.floor(seconds / scale)} {unit}"
    return f"{max(0, math.floor(seconds))} s"


def plural(count: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
