"""Every command of ``ocl-inductor`` has the options that scripts count on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ocl_inductor.cli import main
from ocl_inductor.cli.console import console, plain_table
from ocl_inductor.cli.program import print_failure, run_program


def commands(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each command that is no group, with what a user types after ``ocl-inductor``."""
    if isinstance(command, click.Group):
        for name, member in command.commands.items():
            yield from commands(member, f"{path} {name}".strip())
    else:
        yield path, command


COMMANDS = dict(commands(main))


def test_commands_are_found() -> None:
    assert {"devices", "doctor", "explain", "profile", "cache list"} <= COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_prints_json_and_says_what_it_does(name: str) -> None:
    command = COMMANDS[name]
    assert any("--json" in parameter.opts for parameter in command.params)
    assert command.help


def test_a_failure_is_shown_from_the_script_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import sys\ndef f():\n    raise ValueError(sys.argv[1:])\nf()\n")
    saved = list(sys.argv), list(sys.path)
    with pytest.raises(ValueError, match="-v") as caught:
        run_program(script, ["-v"])
    assert (sys.argv, sys.path) == saved
    print_failure(caught.value)
    said = capsys.readouterr().err
    assert said.count("  File ") == 2 and said.count(str(script)) == 2


def test_no_line_ends_in_spaces_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table("name", "text")
    table.add_row("short", "a b")
    table.add_row("another", "longer  than that")
    console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["short    a b", "another  longer  than that"]
    assert all(line == line.rstrip() for line in lines)
