"""What failures have in common: one cause for messages that differ in numbers only."""

from __future__ import annotations

import re

from ocl_inductor.sweep.status import Status

_NUMBER = re.compile(r"(?<![A-Za-z_\d.])\d+(\.\d+)?(e[+-]?\d+)?")
_SPACES = re.compile(r"\s+")


def cause_of(status: Status, message: str, limit: int = 160) -> str:
    """The group a failure belongs to.

    Wrong results are grouped by what is wrong (outputs, loss, gradients, buffers); everything
    else by its message without numbers, such as shapes and names of generated files.
    """
    if status is Status.FAIL_ACCURACY or status is Status.EAGER_TWO_RUNS_DIFFER:
        return f"{status}: {_wrong_part(message)}"
    text = _SPACES.sub(" ", _NUMBER.sub("N", message)).strip()
    return f"{status}: {text}"[:limit] if text else str(status)


def _wrong_part(message: str) -> str:
    if message.startswith("grad of "):
        return "gradients"
    if message.startswith("buffer "):
        return "buffers"
    if message.startswith("loss after"):
        return "loss curve"
    if message.startswith("loss:"):
        return "loss"
    if message.startswith("only one of the two"):
        return "different results"
    return "outputs"
