"""Every command of ``ocl-inductor`` has the options that scripts count on."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from ocl_inductor.cli import main


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
