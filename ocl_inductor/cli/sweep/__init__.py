"""``ocl-inductor sweep``: run every model of TorchBench, compare runs, find what regressed.

Exit codes of all commands: 0 fine, 1 a problem was found, 2 wrong usage.
"""

from __future__ import annotations

import click

from ocl_inductor.cli.sweep.bisect import bisect_command
from ocl_inductor.cli.sweep.compare import compare_command
from ocl_inductor.cli.sweep.probes import (
    batch_size_command,
    overhead_command,
    resolution_command,
)
from ocl_inductor.cli.sweep.run import run_command
from ocl_inductor.cli.sweep.show import list_command, report_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def sweep() -> None:
    """Run every model of TorchBench in isolation: accuracy, time, memory, regressions."""


for command in (
    run_command,
    list_command,
    report_command,
    compare_command,
    bisect_command,
    batch_size_command,
    resolution_command,
    overhead_command,
):
    sweep.add_command(command)
