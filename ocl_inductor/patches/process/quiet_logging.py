"""Logging at interpreter exit, when the stream of a handler may be closed already."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from ocl_inductor.patches.switch import enabled


@contextlib.contextmanager
def without_errors() -> Iterator[None]:
    """Drop records that cannot be written, instead of printing a traceback."""
    usual = logging.raiseExceptions
    logging.raiseExceptions = usual and not enabled("quiet_logging")
    try:
        yield
    finally:
        logging.raiseExceptions = usual
