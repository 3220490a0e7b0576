"""Why rows are not native: a reason for each operator that runs on the host, by pattern."""

from __future__ import annotations

import re

from conformance.rows import EAGER_FAILS, FAIL, Result

#: Patterns of the names that the backend's counters give; the first that matches counts.
FALLBACK_REASONS: tuple[tuple[str, str], ...] = ()


def reason_of(result: Result) -> str:
    """The reasons of all that a row leaves to the host, or what went wrong."""
    if result.status in (EAGER_FAILS, FAIL):
        return result.detail
    reasons = dict.fromkeys(fallback_reason(name) for name in result.fallbacks)
    return "; ".join(reasons)


def fallback_reason(name: str) -> str:
    for pattern, reason in FALLBACK_REASONS:
        if re.fullmatch(pattern, name):
            return reason
    return "no lowering yet"
