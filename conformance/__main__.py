"""``python -m conformance``: see docs/conformance.md."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.progress import Progress

from conformance import expectations, report
from conformance.check import Limits, Mode, check_row
from conformance.compiled import Compiled
from conformance.eagerly import Eagerly
from conformance.results import append_result, read_results
from conformance.rows import DIRECTIONS, DTYPES, ON_REQUEST, Result, Row, Subject, all_rows
from conformance.subjects import subjects

_RESULTS = Path("conformance_results.jsonl")
_EAGER_RESULTS = Path("conformance_eager.jsonl")
_PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"


@click.command(context_settings={"show_default": True})
@click.option("--only", multiple=True, help="Pattern for operators' names; may be repeated.")
@click.option(
    "--dtype", multiple=True, type=click.Choice((*DTYPES, *ON_REQUEST)), help="May be repeated."
)
@click.option("--direction", type=click.Choice(DIRECTIONS))
@click.option("--device", help="Device, as options={'device': ...} takes it.")
@click.option("--limit", type=int, help="At most this many samples of a row, spread evenly.")
@click.option("--seconds", default=30.0, help="No further sample of a row after so long.")
@click.option("--hang", default=120.0, help="A row that takes longer is killed, and fails.")
@click.option(
    "--eager",
    is_flag=True,
    help="Nothing is compiled by torch.compile: operators run on `ocl` tensors, which have memory "
    "of their own on a CPU's driver, too, unless OCL_INDUCTOR_MEMORY says otherwise.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    show_default=f"{_RESULTS}, {_EAGER_RESULTS} with --eager",
    help="JSON lines.",
)
@click.option("--fresh", is_flag=True, help="Forget earlier results instead of resuming.")
@click.option("--slice", "slice_seed", type=int, help="Rows in a random order of this seed.")
@click.option("--budget", type=float, help="Start no further row after so much of CPU time.")
@click.option("--part", help="K/N: every Nth row from the Kth on, to share the work out.")
@click.option("--not-native", is_flag=True, help="Only rows that are expected not to be.")
@click.option("--report", "report_only", is_flag=True, help="Check nothing: tables of results.")
@click.option("--update-expected", is_flag=True, help="Make the results the expectation.")
def main(
    only: Sequence[str],
    dtype: Sequence[str],
    direction: str | None,
    device: str | None,
    limit: int | None,
    seconds: float,
    hang: float,
    eager: bool,
    results: Path | None,
    fresh: bool,
    slice_seed: int | None,
    budget: float | None,
    part: str | None,
    not_native: bool,
    report_only: bool,
    update_expected: bool,
) -> None:
    """Compile PyTorch's operators, modules and optimisers one by one and compare with eager.

    Ends with status 1 if a row is worse than conformance/expected.jsonl says, or with --eager
    conformance/expected_eager.jsonl.
    """
    warnings.filterwarnings("ignore")
    torch.cuda.is_available = lambda: False  # rows run in forked processes, where it cannot be used
    console = Console()
    results = results or (_EAGER_RESULTS if eager else _RESULTS)
    if fresh:
        results.unlink(missing_ok=True)
    found = read_results(results)
    known = subjects()
    directions = (direction,) if direction else DIRECTIONS
    rows = list(all_rows(known, dtype or DTYPES, directions, only))
    # Eagerly, all devices are expected to do the same.
    kept = (expectations.EAGER_FILE, None) if eager else (expectations.FILE, device)
    expected = expectations.read_expected(*kept)
    if not_native:
        rows = [r for r in rows if r in expected]
    first, step = _part(part)
    rows = rows[first::step]
    if slice_seed is not None:
        rows = [r for r in rows if expectations.is_expected_to_pass(r, expected)]
        random.Random(slice_seed).shuffle(rows)
        console.print(f"random slice, seed {slice_seed}")
    if not report_only:
        waiting = [r for r in rows if r not in found]
        limits, mode = Limits(limit, seconds), Eagerly(device) if eager else Compiled(device)
        for result in _checked(waiting, known, mode, limits, hang, budget, console):
            found[result.row] = result
            append_result(results, result)
    done = [found[r] for r in rows if r in found]
    console.print(report.summary_table(done))
    if update_expected:
        expectations.write_expected(expectations.update(expected, done), *kept)
        report.write_summary(done, _PAGE, "eager" if eager else "summary")
        return
    worse = {r.row: text for r in done if (text := expectations.worse(r, expected))}
    for row, text in worse.items():
        console.print(f"{row.op} {row.dtype} {row.direction}: {text}", markup=False)
    sys.exit(1 if worse else 0)


def _checked(
    rows: Sequence[Row],
    known: dict[str, Subject],
    mode: Mode,
    limits: Limits,
    hang: float,
    budget: float | None,
    console: Console,
) -> Iterator[Result]:
    from conformance.pool import run_rows

    def check(row: Row) -> Result:
        return check_row(row, known[row.op], mode, limits)

    spent = 0.0
    with Progress(console=console) as progress:
        task = progress.add_task("rows", total=len(rows))
        for result in run_rows(rows, check, seconds=hang):
            progress.update(task, advance=1, description=f"{result.row.op} {result.row.dtype}")
            yield result
            spent += result.seconds
            if budget is not None and spent >= budget:
                return


def _part(text: str | None) -> tuple[int, int]:
    """First row and distance between rows of ``K/N``."""
    if text is None:
        return 0, 1
    k, slash, n = text.partition("/")
    if not (slash and k.isdigit() and n.isdigit() and 1 <= int(k) <= int(n)):
        raise click.BadParameter(
            f"{text!r}: write K/N with K from 1 to N, as 2/4", param_hint="part"
        )
    return int(k) - 1, int(n)


if __name__ == "__main__":
    main()
