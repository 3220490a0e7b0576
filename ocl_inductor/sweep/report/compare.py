"""What changed between two sweeps: the paper's 7 % rule, with an eye on noise.

A time or memory regresses where it grew by more than the threshold, and, for times, by more than
both measurements' spread explains. Statuses, new models and missing ones are reported as well.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ocl_inductor.sweep.record import Record, SweepResults

#: The share of growth from which TorchBench's CI files an issue (arXiv 2304.14226).
THRESHOLD = 0.07
#: Memory below this many MiB moves with the allocator, not with the code.
MEMORY_FLOOR_MIB = 16.0
#: How many spreads (half the distance of the quartiles) a difference of medians must exceed.
SPREADS = 2.0

Verdict = Literal["regressed", "improved"]


@dataclass(frozen=True, slots=True)
class Watched:
    """A number that is compared; more of it is worse."""

    metric: str
    title: str
    unit: str
    floor: float = 0.0


WATCHED = (
    Watched("abs_latency", "time", "ms"),
    Watched("host_mib", "memory", "MiB", MEMORY_FLOOR_MIB),
    Watched("device_planned_mib", "planned device memory", "MiB", MEMORY_FLOOR_MIB),
)
#: Compared only where asked for, as one first call says little.
COMPILE = (
    Watched("first_call_cold_s", "first call, cold", "s", 1.0),
    Watched("first_call_warm_s", "first call, warm", "s", 1.0),
)


@dataclass(frozen=True, slots=True)
class Change:
    """One number of one model that moved by more than the threshold.

    ``noise``: the growth that the spread of both measurements explains; 0 where none is known.
    ``confirmed``: whether measuring again showed it too; None where it was not repeated.
    """

    key: str
    model: str
    mode: str
    backend: str
    what: str
    unit: str
    before: float
    after: float
    verdict: Verdict
    noise: float = 0.0
    confirmed: bool | None = None
    reproduce: str = ""

    @property
    def growth(self) -> float:
        """Share by which it grew; negative where it shrank."""
        return self.after / self.before - 1.0


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A model that passed and fails now, or the other way round, or fails differently."""

    key: str
    model: str
    mode: str
    what: str
    backend: str
    before: str
    after: str
    message: str
    reproduce: str

    @property
    def worse(self) -> bool:
        return self.before.startswith("pass") and not self.after.startswith("pass")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that differs between sweep ``a`` (before) and ``b`` (after)."""

    threshold: float
    compared: int
    changes: tuple[Change, ...] = ()
    statuses: tuple[StatusChange, ...] = ()
    new: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    environment: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def regressions(self) -> tuple[Change, ...]:
        """Changes for the worse that were not disproved."""
        return tuple(
            c for c in self.changes if c.verdict == "regressed" and c.confirmed is not False
        )

    @property
    def broken(self) -> tuple[StatusChange, ...]:
        return tuple(s for s in self.statuses if s.worse)

    @property
    def found_problem(self) -> bool:
        """Whether the second sweep is worse: slower, larger, broken, or without a model."""
        return bool(self.regressions or self.broken or self.missing)

    def as_dict(self) -> dict[str, object]:
        """Plain values for YAML and JSON."""
        return {
            "threshold": self.threshold,
            "compared": self.compared,
            "problem": self.found_problem,
            "regressions": [_change(c) for c in self.regressions],
            "improvements": [_change(c) for c in self.changes if c.verdict == "improved"],
            "not_confirmed": [_change(c) for c in self.changes if c.confirmed is False],
            "status_changes": [asdict(s) for s in self.statuses],
            "new": list(self.new),
            "missing": list(self.missing),
            "environment": {k: {"before": a, "after": b} for k, (a, b) in self.environment.items()},
        }


def _change(change: Change) -> dict[str, object]:
    return {**asdict(change), "growth": round(change.growth, 4)}


def compare(
    before: SweepResults,
    after: SweepResults,
    threshold: float = THRESHOLD,
    compile_times: bool = False,
) -> Comparison:
    """Compare two sweeps key by key. Records of eager are the yardstick and are not compared."""
    old = {k: r for k, r in before.by_key().items() if r.backend != "eager"}
    new = {k: r for k, r in after.by_key().items() if r.backend != "eager"}
    common = [key for key in old if key in new]
    watched = (*WATCHED, *(COMPILE if compile_times else ()))
    changes = [
        change
        for key in common
        for number in watched
        if (change := _compare_number(old[key], new[key], number, threshold)) is not None
    ]
    return Comparison(
        threshold,
        len(common),
        tuple(sorted(changes, key=lambda c: (c.verdict != "regressed", -abs(c.growth)))),
        tuple(
            _status_change(old[key], new[key])
            for key in common
            if old[key].status is not new[key].status
        ),
        tuple(key for key in new if key not in old),
        tuple(key for key in old if key not in new),
        _environment(before.environment, after.environment),
    )


def _compare_number(old: Record, new: Record, number: Watched, threshold: float) -> Change | None:
    a, b = old.metric(number.metric), new.metric(number.metric)
    if a is None or b is None or max(a, b) < number.floor:
        return None
    # A small number that became large regressed, but not by infinity.
    a, b = max(a, number.floor, 1e-9), max(b, number.floor, 1e-9)
    noise = noise_of(old, new) if number.metric == "abs_latency" else 0.0
    growth = b / a - 1.0
    shrinkage = a / b - 1.0  # the other way round, so that both directions have one threshold
    limit = max(threshold, noise)
    if growth <= limit and shrinkage <= limit:
        return None
    return Change(
        new.key,
        new.title,
        new.mode,
        new.backend,
        number.title,
        number.unit,
        a,
        b,
        "regressed" if growth > 0 else "improved",
        round(noise, 4),
        reproduce=new.reproduce,
    )


def noise_of(old: Record, new: Record) -> float:
    """The share by which two medians may differ by chance, from the samples' spread.

    ``SPREADS`` times both spreads, added as independent errors are; and no less than how much
    eager itself moved between the two sweeps, as the machine was that much slower or faster.
    """
    spreads = [_spread(record) for record in (old, new)]
    own = SPREADS * sum(s * s for s in spreads) ** 0.5
    return max(own, _drift(old, new))


def _spread(record: Record) -> float:
    """Half the distance of the quartiles as a share of the median; at least that stored."""
    stored = record.metric("latency_spread") or 0.0
    samples: Sequence[float] = record.metrics.get("samples_ms") or ()
    if len(samples) < 4:
        return stored
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    median = statistics.median(samples)
    return max(stored, (high - low) / 2 / median) if median > 0 else stored


def _drift(old: Record, new: Record) -> float:
    a, b = old.metric("eager_latency"), new.metric("eager_latency")
    if not a or not b:
        return 0.0
    return max(a / b, b / a) - 1.0


def _status_change(old: Record, new: Record) -> StatusChange:
    return StatusChange(
        new.key,
        new.title,
        new.mode,
        new.what,
        new.backend,
        str(old.status),
        str(new.status),
        new.message,
        new.reproduce,
    )


def _environment(
    a: Mapping[str, object], b: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """What differs between two machines or their software, by dotted name."""
    left, right = _flat(a), _flat(b)
    return {
        key: (left.get(key), right.get(key))
        for key in sorted(left.keys() | right.keys())
        if left.get(key) != right.get(key) and not key.endswith("flags")
    }


def _flat(value: object, path: str = "") -> dict[str, object]:
    if isinstance(value, Mapping):
        return {
            k: v for key, item in value.items() for k, v in _flat(item, f"{path}.{key}").items()
        }
    if isinstance(value, list | tuple):
        return {k: v for i, item in enumerate(value) for k, v in _flat(item, f"{path}.{i}").items()}
    return {path.removeprefix("."): value}


def confirm(comparison: Comparison, again: Comparison) -> Comparison:
    """The first comparison, each regression marked with whether measuring again shows it too.

    ``again`` compares the same sweep with fresh measurements of the models that regressed.
    """
    from dataclasses import replace

    seen = {(c.key, c.what) for c in again.changes if c.verdict == "regressed"}
    return replace(
        comparison,
        changes=tuple(
            replace(c, confirmed=(c.key, c.what) in seen) if c.verdict == "regressed" else c
            for c in comparison.changes
        ),
    )


def markdown(comparison: Comparison, a: str, b: str) -> str:
    """The comparison as an issue could show it."""
    lines = [f"# Sweep: {a} → {b}", ""]
    lines.append(
        f"SweepResults compared: {comparison.compared}, threshold {comparison.threshold:.0%}. "
        f"Regressions: {len(comparison.regressions)}. Broken: {len(comparison.broken)}. "
        f"Missing: {len(comparison.missing)}."
    )
    improved = [c for c in comparison.changes if c.verdict == "improved"]
    dismissed = [c for c in comparison.changes if c.confirmed is False]
    for title, changes in (
        ("Regressions", comparison.regressions),
        ("Improvements", improved),
        ("Seen once, not when measured again", dismissed),
    ):
        if changes:
            lines += ["", f"## {title}", "", "| model | backend | what | before | after | change |"]
            lines.append("|---|---|---|---:|---:|---:|")
            lines += [
                f"| {c.model} | {c.backend} | {c.what} | {c.before:.4g} {c.unit} "
                f"| {c.after:.4g} {c.unit} | {c.growth:+.1%} |"
                for c in changes
            ]
    if comparison.statuses:
        lines += ["", "## Statuses", "", "| model | backend | what | before | after | message |"]
        lines.append("|---|---|---|---|---|---|")
        lines += [
            f"| {s.model} | {s.backend} | {s.what} | {s.before} | {s.after} | {_cell(s.message)} |"
            for s in comparison.statuses
        ]
    for title, keys in (("New", comparison.new), ("Missing", comparison.missing)):
        if keys:
            lines += ["", f"## {title}", "", *(f"- `{key}`" for key in keys)]
    commands = dict.fromkeys(
        [c.reproduce for c in comparison.regressions] + [s.reproduce for s in comparison.broken]
    )
    if commands:
        lines += ["", "## Reproduce", "", "```", *commands, "```"]
    if comparison.environment:
        lines += ["", "## Environment", "", "| | before | after |", "|---|---|---|"]
        lines += [
            f"| {name} | {_cell(x)} | {_cell(y)} |"
            for name, (x, y) in comparison.environment.items()
        ]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return "–" if value is None else str(value).replace("|", "\\|").replace("\n", " ")[:120]
