"""``ocl-inductor cache``: inspect and maintain the compiled kernels on disk."""

from __future__ import annotations

from pathlib import Path

import click

from ocl_inductor.cli.cache.bench import bench
from ocl_inductor.cli.cache.entries import open_cache
from ocl_inductor.cli.cache.show import diff, list_, show, source, stats
from ocl_inductor.cli.cache.transport import export, import_
from ocl_inductor.cli.cache.upkeep import clear, prune, verify


@click.group()
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another cache folder than OCL_INDUCTOR_CACHE_DIR or the user's.",
)
@click.pass_context
def cache(ctx: click.Context, cache_dir: Path | None) -> None:
    """Look at the compiled kernels on disk, and after them.

    Exit codes: 0 all is well, 1 a problem was found, 2 wrong usage.
    """
    ctx.obj = open_cache(cache_dir)


for _command in (
    list_,
    show,
    source,
    stats,
    verify,
    prune,
    clear,
    export,
    import_,
    bench,
    diff,
):
    cache.add_command(_command)
