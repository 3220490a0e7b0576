"""Names in OpenCL C text."""

from __future__ import annotations

import re
from collections.abc import Mapping


def all_renamed(text: str, changed: Mapping[str, str]) -> str:
    """All keys of ``changed`` renamed at once: a new name may be the old one of another."""
    if not changed:
        return text
    names = "|".join(map(re.escape, changed))
    return re.sub(rf"\b(?:{names})\b", lambda found: changed[found[0]], text)
