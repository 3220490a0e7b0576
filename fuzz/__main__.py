"""``python -m fuzz``: see docs/fuzzing.md."""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from conformance.pool import Child, Died
from fuzz.check import OCLGRIND, Job, Outcome, Target, check_job, oclgrind_library
from fuzz.compare import Verdict
from fuzz.program import Program
from fuzz.reproducer import save, source
from fuzz.shrink import shrink
from fuzz.there import MODES

FOUND = Path(__file__).parents[1] / "tests" / "fuzz_found"

#: One program in so many runs under the simulator.
SIMULATED = 40

#: Programs between lines of progress where there is no terminal.
LINE_EVERY = 100

PROFILES = ("vector", "simt")
#: A GPU's own memory, with transfers, as well as a CPU's.
MEMORIES = ("auto", "discrete")


@click.command(context_settings={"show_default": True})
@click.option("--minutes", default=10.0, help="Start no further program after so long.")
@click.option("--seed", type=int, help="What the programs are made of; random without.")
@click.option("--device", multiple=True, help="As options={'device': ...} takes it; repeatable.")
@click.option("--profile", type=click.Choice(PROFILES), help="Only this one.")
@click.option("--memory", type=click.Choice(MEMORIES), help="Only this kind of memory.")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="On tensors of the device `ocl`: one by one, recorded, or compiled.",
)
@click.option("--first", default=0, help="Number of the first program.")
@click.option("--programs", type=int, help="At most so many.")
@click.option("--stop-at", default=20, help="Give up after so many programs that fail.")
@click.option("--seconds", default=180.0, help="A program that takes longer is a failure.")
@click.option("--simulator/--no-simulator", default=True, help="A few under oclgrind as well.")
@click.option("--found", default=FOUND, type=click.Path(path_type=Path), help="For reproducers.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def main(
    minutes: float,
    seed: int | None,
    device: tuple[str, ...],
    profile: str | None,
    memory: str | None,
    mode: str | None,
    first: int,
    programs: int | None,
    stop_at: int,
    seconds: float,
    simulator: bool,
    found: Path,
    as_json: bool,
) -> None:
    """Compile random programs and compare them with eager and float64.

    Ends with status 1 if one of them failed; its reproducer lies in tests/fuzz_found then.
    """
    warnings.filterwarnings("ignore")
    console = Console(stderr=as_json, soft_wrap=True)
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    profiles = (profile,) if profile else PROFILES
    if mode is not None and profile is not None:
        raise click.UsageError("--profile goes with compiled functions of CPU tensors, not --mode")
    targets = [
        Target(d, p, m, mode or "")
        for d in device or ("intel", "pocl")
        for p in (profiles if mode is None else ("auto",))
        for m in ((memory,) if memory else MEMORIES)
    ]
    simulator = simulator and mode is None and oclgrind_library() is not None
    console.print(f"seed {seed}, " + "; ".join(map(str, targets)))
    hunt = _Hunt(seed, found, seconds, console)
    end = time.monotonic() + 60 * minutes
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress, hunt:
        task = progress.add_task("programs", total=60 * minutes)
        number = first
        while time.monotonic() < end and len(hunt.failures) < stop_at:
            if programs is not None and number - first >= programs:
                break
            target = random.Random(f"{seed}/{number}/target").choice(targets)
            if simulator and number % SIMULATED == SIMULATED - 1:
                target = Target(OCLGRIND, target.profile)
            hunt.run(Job(seed, number, target))
            number += 1
            if not console.is_terminal and number % LINE_EVERY == 0:
                console.print(f"{hunt.count['programs']} programs, {len(hunt.failures)} failures")
            left = max(0.0, end - time.monotonic())
            progress.update(
                task,
                completed=60 * minutes - left,
                description=f"{hunt.count['programs']} programs, {len(hunt.failures)} failures",
            )
    if as_json:
        click.echo(json.dumps({"seed": seed, **hunt.count, "failures": hunt.failures}, indent=2))
    else:
        console.print(hunt.summary())
    sys.exit(1 if hunt.failures else 0)


class _Hunt:
    """Runs programs in a child, and what they leave behind."""

    def __init__(self, seed: int, found: Path, seconds: float, console: Console) -> None:
        self.seed, self.found, self.console = seed, found, console
        self.count: Counter[str] = Counter(programs=0, elements=0, undecided=0)
        self.failures: list[dict[str, str]] = []
        self._seconds = seconds
        self._children: dict[tuple[str, ...], Child] = {}

    def __enter__(self) -> _Hunt:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children.values():
            child.stop()

    def run(self, job: Job) -> None:
        outcome = self._ask(job)
        if outcome.program is None:
            return
        self.count["programs"] += 1
        self.count[f"on {job.target}"] += 1
        self.count["with gradients"] += outcome.program.backward
        self.count["with dynamic shapes"] += outcome.program.dynamic
        self.count["lines"] += len(outcome.program.steps)
        self.count["elements"] += outcome.verdict.elements
        self.count["undecided"] += outcome.verdict.undecided
        if outcome.verdict.foreign:
            self.count["wrong with aot_eager as well"] += 1
            said = f"program {job.number}, with aot_eager as well: {outcome.verdict.foreign}"
            self.console.print(said, markup=False)
        if outcome.verdict.refused:
            self.count["refused"] += 1
            self.console.print(f"program {job.number}: {outcome.verdict.refused}", markup=False)
        if outcome.verdict.wrong:
            self._failed(job, outcome.program, outcome.verdict.wrong)

    def _ask(self, job: Job) -> Outcome:
        child = self._children.get(job.target.process)
        if child is None:
            child = Child(check_job, chunk=60, seconds=self._seconds)
            self._children[job.target.process] = child
        answer = child.ask(job)
        if not isinstance(answer, Died):
            return answer
        program = job.program
        if program is None:
            # Made again, without being run, in a process of its own: eager itself may crash.
            with Child(_generated, seconds=60.0) as child:
                made = child.ask(job)
            program = None if isinstance(made, Died) else made
        return Outcome(program, Verdict(answer.how))

    def _failed(self, job: Job, program: Program, wrong: str) -> None:
        kind = wrong.split(":")[0]
        self.console.print(f"program {job.number} on {job.target}: {wrong}", markup=False)

        def fails(smaller: Program) -> bool:
            outcome = self._ask(Job(job.seed, job.number, job.target, smaller))
            # A wrong number must not turn into another kind of failure on the way.
            said = outcome.verdict.wrong
            return (
                said.startswith("result") if kind.startswith("result") else said[:40] == wrong[:40]
            )

        program = shrink(program, fails)
        last = self._ask(Job(job.seed, job.number, job.target, program)).verdict.wrong or wrong
        where = f"seed {job.seed}, program {job.number}, {job.target}"
        text = source(program, last, where, job.target)
        path = save(text, self.found, f"seed_{job.seed}_program_{job.number}")
        self.console.print(program.source(), markup=False, highlight=False)
        self.console.print(f"  {last}\n  saved as {path}", markup=False, highlight=False)
        self.failures.append({"where": where, "wrong": last, "file": str(path)})

    def summary(self) -> str:
        share = 100 * self.count["undecided"] / max(1, self.count["elements"])
        lines = [f"{k}: {v}" for k, v in self.count.items() if k != "undecided"]
        lines.append(f"elements that rounding leaves undecided: {share:.2f} %")
        lines.append(f"failures: {len(self.failures)}")
        return "\n".join(lines)


def _generated(job: Job) -> Program | None:
    from fuzz.generator import generate

    return generate(job.seed, job.number, small=job.target.device == OCLGRIND)


if __name__ == "__main__":
    main()
