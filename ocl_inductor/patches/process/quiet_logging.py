"""Logging without a word about a log that is closed, when the interpreter ends."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from ocl_inductor.patches.switch import enabled


@contextlib.contextmanager
def without_errors() -> Iterator[None]:
    """What cannot be written in here is lost."""
    usual = logging.raiseExceptions
    logging.raiseExceptions = usual and not enabled("quiet_logging")
    try:
        yield
    finally:
        logging.raiseExceptions = usual
