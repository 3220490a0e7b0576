"""Names in OpenCL C text."""

from __future__ import annotations

import re


def renamed(text: str, old: str, new: str) -> str:
    """``text`` with another name for what ``old`` names."""
    return re.sub(rf"\b{re.escape(old)}\b", new, text)
