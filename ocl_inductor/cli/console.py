"""How commands print: tables that fit a terminal, and whole lines in a pipe."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, TextIO

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Wide enough for any row, so that a row is one line for ``grep``.
_PIPE_WIDTH = 4096


def console() -> Console:
    """For standard output. In a pipe without colours, and as wide as its content.

    COLUMNS sets another width.
    """
    if sys.stdout.isatty():
        return Console(highlight=False, emoji=False)
    wide = not os.environ.get("COLUMNS", "").isdigit()
    return Console(
        file=_Trimmed(sys.stdout),  # type: ignore[arg-type]  # rich writes, flushes, asks isatty
        width=_PIPE_WIDTH if wide else None,
        highlight=False,
        emoji=False,
    )


class _Trimmed:
    """A text file whose lines get no spaces at their ends, with which tables fill their columns."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, text: str) -> int:
        self.file.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def plain_table(*headings: str, numbers: tuple[str, ...] = ()) -> Table:
    """A table of little ink: ``headings`` fold where room is short, ``numbers`` never do."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def printable(text: str, keep: str = "") -> str:
    """``text`` with an escape for each character that a terminal would obey, or could not show, but
    for those in ``keep``: files on disk and in archives are not trusted.
    """
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def cell(text: str) -> Text:
    """Such a text in a table."""
    return Text(printable(text))


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))
