"""How commands print: tables that fit a terminal, and whole lines in a pipe."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click
from rich.console import Console

#: Wide enough for any row, so that a row is one line for ``grep``.
_PIPE_WIDTH = 4096


def console() -> Console:
    """For standard output. In a pipe without colours, and as wide as its content.

    COLUMNS sets another width.
    """
    wide = not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdigit()
    return Console(width=_PIPE_WIDTH if wide else None, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
