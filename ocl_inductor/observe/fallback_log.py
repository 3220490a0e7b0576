"""What the log says of operators that run in ATen on the host: a line an operator, and a count.

``TORCH_LOGS=opencl_fallback`` has each of them in full instead, in every graph that is compiled.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter

from ocl_inductor.log import artifact, artifact_name, logger
from ocl_inductor.patches.process.process_hooks import at_exit
from ocl_inductor.patches.process.quiet_logging import without_errors

#: Of what fell back; a filter sees ``(operator, reason, …)`` as the arguments of its records.
fallback_log = artifact(__name__, "fallback")
_log = logger(__name__)
#: A line of the user's as Origin has it, with the code: `(File "model.py", line 3, in f: …)`.
_LINE = re.compile(r'\(File "(.+?)", line (\d+), in (.+?): .*\)$', re.S)


class FallbackLines:
    """Says each operator once; one of these a process. Threads compile at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: Counter[str] = Counter()

    def say(self, operator: str, reason: str) -> None:
        """``reason``: why, and in parentheses which line of the user's."""
        in_full = fallback_log.isEnabledFor(logging.DEBUG)
        if not in_full:
            with self._lock:
                self._places[operator] += 1
                if self._places[operator] > 1:
                    return
            reason = _LINE.sub(r"(\1:\2 in \3)", reason)
        fallback_log.warning("%s runs on the host: %s", operator, reason)

    def summary(self) -> str:
        """How often each was met, most frequent first; "" where the lines said it all."""
        with self._lock:
            places = self._places.most_common()
        if all(count == 1 for _, count in places):
            return ""
        counts = ", ".join(f"{operator} {count}" for operator, count in places)
        return (
            f"operators in compiled graphs that run on the host: {counts}. "
            f"TORCH_LOGS={artifact_name('fallback')} shows each with its place."
        )


_lines = FallbackLines()


def say_fallback(operator: str, reason: str, source: str = "") -> None:
    """Warn that an operator runs on the host; ``source``: the user's line, if known."""
    _lines.say(operator, f"{reason} ({source})" if source else reason)


def _say_summary() -> None:
    summary = _lines.summary()
    if summary:
        with without_errors():  # whatever the log goes to may be closed by now
            _log.warning("%s", summary)


at_exit(_say_summary)
