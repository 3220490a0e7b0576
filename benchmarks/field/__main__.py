"""``python -m benchmarks.field TABLE``; ``--help`` lists the tables."""

from __future__ import annotations

import click

from benchmarks.field import mnist, resolution, sequential, training


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure a table of the device `ocl` as programs use it, and append its lines to a file."""


for table in (training, mnist, resolution, sequential):
    main.add_command(table.main)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks.field")
