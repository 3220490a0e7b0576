"""Runs somebody's script inside a command, as ``python script.py`` would."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


def run_program(script: Path, arguments: Sequence[str]) -> None:
    """Run it with these arguments. What it raises, SystemExit too, comes from here."""
    saved = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path[0:1] = [str(script.absolute().parent)]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = saved


def print_failure(error: BaseException) -> None:
    """The traceback, on standard error, from where the user's code begins."""
    frames = error.__traceback__
    begun = False  # with the frames of the command
    while frames is not None and not (begun and not _of_the_command(frames)):
        begun = begun or _of_the_command(frames)
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _of_the_command(frames: TracebackType) -> bool:
    filename = frames.tb_frame.f_code.co_filename
    return Path(filename).parent == Path(__file__).parent or "runpy" in filename
