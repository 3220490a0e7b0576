"""The command ``ocl-inductor``; one file a subcommand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from ocl_inductor import __version__
from ocl_inductor.cli import supervised
from ocl_inductor.cli.cache import cache
from ocl_inductor.cli.devices import devices
from ocl_inductor.cli.doctor import doctor
from ocl_inductor.cli.explain import explain
from ocl_inductor.cli.prebuild import prebuild
from ocl_inductor.cli.profile import profile
from ocl_inductor.cli.sweep import sweep
from ocl_inductor.cli.tune import tune
from ocl_inductor.errors import OpenCLInductorError, UnknownOptionError

#: Commands that run a script or a model in their own process.
RUN_USERS_CODE = ("explain", "prebuild", "profile", "tune")


class _Command(click.Group):
    """Errors of this package are told in their words, without a traceback."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **named: Any) -> Any:
        """Run the command. What runs the user's code is supervised, where this is the process."""
        run = partial(super().main, args, *others, **named)
        given = sys.argv[1:]
        if args is None and given[:1] and given[0] in RUN_USERS_CODE and supervised.possible():
            supervised.supervised(run, " ".join(given))
        return run()

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except UnknownOptionError as error:
            raise click.UsageError(str(error)) from None
        except OpenCLInductorError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Command)
@click.version_option(__version__, prog_name="ocl-inductor")
def main() -> None:
    """Look at what the OpenCL backend of torch.compile sees and does."""


main.add_command(devices)
main.add_command(doctor)
main.add_command(profile)
main.add_command(cache)
main.add_command(explain)
main.add_command(sweep)
main.add_command(tune)
main.add_command(prebuild)
