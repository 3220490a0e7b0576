"""One line of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: ``note``: neither good nor bad; ``warning``: something less than it could be.
State = Literal["ok", "note", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was found, and what to do about it."""

    step: str
    state: State
    what: str
    advice: str = ""
