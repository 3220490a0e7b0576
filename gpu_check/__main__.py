"""``python -m gpu_check``: see docs/gpu.md."""

from __future__ import annotations

import fnmatch
import os
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.console import Console

from gpu_check.cases import CASES, Case
from gpu_check.check import Checked, check, compile_all, sources_of
from gpu_check.compilers import COMPILERS, Compiler
from gpu_check.emit import emitted
from gpu_check.ratchet import (
    Ratchet,
    complaints,
    improved,
    merged,
    read_ratchet,
    write_ratchet,
)
from gpu_check.targets import DEVICES, Device
from ocl_inductor.plan.plan import Plan


@click.command()
@click.option("--only", multiple=True, help="Pattern for names of cases; may be repeated.")
@click.option(
    "--device", multiple=True, type=click.Choice([d.name for d in DEVICES]), help="Repeatable."
)
@click.option("--update", is_flag=True, help="Put on record what got better, and what is new.")
@click.option(
    "--accept", multiple=True, help="Pattern for cases to put on record as they are; repeatable."
)
@click.option("--verbose", is_flag=True, help="Say which kernels are behind the figures.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Leave sources and assembly in this folder.",
)
def main(
    only: Sequence[str],
    device: Sequence[str],
    update: bool,
    accept: Sequence[str],
    verbose: bool,
    keep: Path | None,
) -> None:
    """Compile the kernels of GPUs with offline compilers and compare with what is on record.

    Ends with status 1 where anything is worse, or a compiler is missing.
    """
    warnings.filterwarnings("ignore")
    console = Console(highlight=False, soft_wrap=True)
    cases = [c for c in CASES if not only or any(fnmatch.fnmatch(c.name, p) for p in only)]
    devices = [d for d in DEVICES if not device or d.name in device]
    compilers = {d.name: COMPILERS[d.compiler](d.name) for d in devices}
    missing = [why for c in compilers.values() if (why := c.missing())]
    for why in missing:
        console.print(why)
    if missing or not cases:
        sys.exit(1)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    now = Ratchet({d.name: compilers[d.name].version for d in devices})
    plans: dict[str, dict[str, list[Plan]]] = {}
    for d in devices:
        if d.target not in plans:
            plans[d.target] = {c.name: emitted(c, d.target) for c in cases}
        for case, found in _checked(cases, plans[d.target], d, compilers[d.name], keep):
            now.rows[d.name, case.name] = found.figures
            now.families[case.name] = case.family
            _say(console, d, case, found, verbose)
    record = read_ratchet()
    if update or accept:
        record = merged(now, record, accept, [c.name for c in CASES])
        write_ratchet(record)
    worse = list(complaints(now, record))
    better = improved(now, record)
    for line in worse:
        console.print(f"worse: {line}")
    if better:
        console.print(f"{len(better)} rows are better than on record: --update keeps them")
    console.print(f"{len(now.rows)} rows, {len(worse)} worse than on record")
    sys.exit(bool(worse))


def _checked(
    cases: Sequence[Case],
    plans: dict[str, list[Plan]],
    device: Device,
    compiler: Compiler,
    keep: Path | None,
) -> list[tuple[Case, Checked]]:
    sources = [s for c in cases for s in sources_of(plans[c.name])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        code = compile_all(sources, device, compiler, pool.map, keep)
    return [(c, check(c, plans[c.name], device, compiler, code)) for c in cases]


def _say(console: Console, device: Device, case: Case, found: Checked, verbose: bool) -> None:
    row = {k: v for k, v in found.figures.as_row().items() if v is not None}
    figures = " ".join(f"{name} {value}" for name, value in row.items())
    console.print(f"{device.name} {case.name}: {figures}")
    for line in [*found.problems, *(found.notes if verbose else ())]:
        console.print(f"    {line}")


if __name__ == "__main__":
    main()
