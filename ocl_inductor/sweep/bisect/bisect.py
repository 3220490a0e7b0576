"""Finding what made a model slower, larger or wrong: a binary search over commits or versions.

The first candidate is known to be good and the last to be bad; both are measured, so that a
regression that does not show here is not searched for. A number counts as bad when it is nearer
to the bad end than to the good one, on a logarithmic scale; a number close to the middle is
measured again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.record import Record

#: A number within this share of the way around the middle between good and bad is doubtful.
DOUBTFUL = 0.2
#: Measurements of one candidate at most.
ATTEMPTS = 3
#: Metrics of which less is worse.
FALLING = ("speedup", "compression_ratio")


class NoRegressionError(OpenCLInductorError):
    """The two ends do not differ enough to search between them."""

    def __init__(self, metric: str, good: str, bad: str) -> None:
        super().__init__(
            f"{metric} does not regress from the first to the last candidate: {good} to {bad}. "
            "Choose other ends, another --metric, or a smaller --threshold.",
            metric=metric,
        )


class UntestableError(OpenCLInductorError):
    """An end of the search that cannot be measured."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} cannot be measured: {reason}", candidate=name)


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate: its values (None where it could not be measured) and the verdict."""

    name: str
    values: tuple[float | str, ...]
    bad: bool | None
    message: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "values": list(self.values),
            "bad": self.bad,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Found:
    """The answer: ``suspects`` has one name, or more where candidates could not be measured."""

    metric: str
    suspects: tuple[str, ...]
    last_good: str
    tried: tuple[Tried, ...] = field(default_factory=tuple)

    def as_dict(self) -> dict[str, object]:
        return {
            "metric": self.metric,
            "first_bad": self.suspects[0] if len(self.suspects) == 1 else None,
            "suspects": list(self.suspects),
            "last_good": self.last_good,
            "tried": [t.as_dict() for t in self.tried],
        }


Measure = Callable[[str], Record]
"""Measures a candidate by name; raises an OpenCLInductorError where that is not possible."""


def value_of(record: Record, metric: str) -> float | str | None:
    """What is compared: the status, or a number where the model passed."""
    if metric == "status":
        return str(record.status)
    return record.metric(metric) if record.status.good else None


def bisect(
    candidates: Sequence[str],
    measure: Measure,
    metric: str,
    threshold: float,
    on_tried: Callable[[Tried], None] = lambda tried: None,
) -> Found:
    """The first bad one of ``candidates``, which are in order, the first good and the last bad.

    Raises:
        UntestableError: an end cannot be measured.
        NoRegressionError: the last one is no worse than the first.
    """
    search = _Search(measure, metric, threshold, on_tried)
    search.measure_ends(candidates[0], candidates[-1])
    low, high = 0, len(candidates) - 1
    untestable: set[int] = set()
    while True:
        inside = [i for i in range(low + 1, high) if i not in untestable]
        if not inside:
            break
        middle = min(inside, key=lambda i: abs(i - (low + high) / 2))
        match search.is_bad(candidates[middle]):
            case True:
                high = middle
            case False:
                low = middle
            case None:
                untestable.add(middle)
    suspects = tuple(candidates[low + 1 : high + 1])
    return Found(metric, suspects, candidates[low], tuple(search.tried))


class _Search:
    """The measurements of one search."""

    def __init__(
        self,
        measure: Measure,
        metric: str,
        threshold: float,
        on_tried: Callable[[Tried], None],
    ) -> None:
        self.measure = measure
        self.metric = metric
        self.threshold = threshold
        self.on_tried = on_tried
        self.tried: list[Tried] = []
        self.good: float | str = ""
        self.bad: float | str = ""

    def measure_ends(self, good: str, bad: str) -> None:
        for name in (good, bad):
            values, message = self._values(name, ATTEMPTS if self.metric != "status" else 1)
            if not values:
                raise UntestableError(name, message)
            value = _middle(values)
            if name == good:
                self.good = value
            else:
                self.bad = value
            self._note(Tried(name, values, name == bad, message))
        if not self._regressed():
            raise NoRegressionError(self.metric, _text(self.good), _text(self.bad))

    def _regressed(self) -> bool:
        if isinstance(self.good, str) or isinstance(self.bad, str):
            return str(self.good).startswith("pass") and not str(self.bad).startswith("pass")
        if min(self.good, self.bad) <= 0:
            return False
        growth = self.bad / self.good
        if self.metric in FALLING:
            growth = 1 / growth
        return growth - 1 > self.threshold

    def is_bad(self, name: str) -> bool | None:
        """The verdict on a candidate; None where it cannot be measured."""
        values, message = self._values(name, 1)
        if values and self._doubtful(values):
            more, _ = self._values(name, ATTEMPTS - 1)
            values += more
        bad = None if not values else self._verdict(_middle(values))
        self._note(Tried(name, values, bad, message))
        return bad

    def _note(self, tried: Tried) -> None:
        self.tried.append(tried)
        self.on_tried(tried)

    def _values(self, name: str, attempts: int) -> tuple[tuple[float | str, ...], str]:
        """Values of up to ``attempts`` measurements, and why there are none."""
        values: list[float | str] = []
        message = ""
        for _ in range(attempts):
            try:
                record = self.measure(name)
            except OpenCLInductorError as error:
                message = str(error)
                break
            value = value_of(record, self.metric)
            if value is None:
                message = f"{record.status}: {record.message}"
                break
            values.append(value)
        return tuple(values), message

    def _share(self, value: float) -> float:
        """Where a value lies between good (0) and bad (1), on a logarithmic scale."""
        assert isinstance(self.good, float) and isinstance(self.bad, float)
        return math.log(max(value, 1e-12) / self.good) / math.log(self.bad / self.good)

    def _doubtful(self, values: Sequence[float | str]) -> bool:
        value = values[0]
        return not isinstance(value, str) and abs(self._share(value) - 0.5) < DOUBTFUL

    def _verdict(self, value: float | str) -> bool:
        if isinstance(value, str):
            return not value.startswith("pass")
        return self._share(value) > 0.5


def _middle(values: Sequence[float | str]) -> float | str:
    numbers = [v for v in values if not isinstance(v, str)]
    return float(statistics.median(numbers)) if numbers else values[0]


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
