"""A page with every command, its usage, arguments and options, from click's own objects."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

HEAD = """# Every command

What they print, and what it means, is in [the command](cli.md), [explain](explain.md),
[the kernel cache](cache.md) and [the sweep](sweep.md). Each has `--help` as well.
"""


def page(root: click.Command, name: str) -> str:
    parts = [HEAD]
    for level, context in _walk(click.Context(root, info_name=name), 2):
        command = context.command
        usage = command.get_usage(context).removeprefix("Usage: ")
        parts += [f"{'#' * level} `{context.command_path}`", _prose(command.help)]
        parts.append(f"```\n{usage}\n```")
        records = [p.get_help_record(context) for p in command.get_params(context)]
        rows = [(left, right) for left, right in filter(None, records) if "--help" not in left]
        if rows:
            lines = [f"| `{_cell(left)}` | {_cell(right)} |" for left, right in rows]
            parts.append("\n".join(["| option | |", "|---|---|", *lines]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _walk(context: click.Context, level: int) -> Iterator[tuple[int, click.Context]]:
    yield level, context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None:
                below = click.Context(command, info_name=name, parent=context)
                yield from _walk(below, level + 1)


def _prose(text: str | None) -> str:
    r"""The paragraphs of a docstring; those after ``\b`` keep their lines."""
    kept = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b"):
            kept.append("```\n" + paragraph.removeprefix("\b").strip("\n") + "\n```")
        else:
            kept.append(paragraph)
    return "\n\n".join(kept)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
