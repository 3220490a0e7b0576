"""Timing several callables against each other on a machine that is never quiet."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import psutil

MIN_SAMPLE_SECONDS = 0.01  # calls are repeated up to this, so the clock's grain does not matter


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds a call.

    Attributes:
        median_ms, min_ms: over the samples.
        spread: half the distance of the quartiles, as a share of the median.
        calls_per_sample: how many calls each sample averages.
        samples_ms: every sample, in the order of the rounds.
    """

    median_ms: float
    min_ms: float
    spread: float
    calls_per_sample: int
    samples_ms: tuple[float, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def summarise(samples_ms: list[float], calls_per_sample: int) -> Timing:
    """Median, minimum and spread of samples.

    Raises:
        ValueError: there are no samples.
    """
    if not samples_ms:
        raise ValueError("no samples")
    median = statistics.median(samples_ms)
    spread = 0.0
    if len(samples_ms) > 1 and median > 0:
        low, _, high = statistics.quantiles(samples_ms, n=4, method="inclusive")
        spread = (high - low) / 2 / median
    return Timing(median, min(samples_ms), spread, calls_per_sample, tuple(samples_ms))


#: Longer than OpenMP's threads spin for work, and longer than thread pools need to wake up.
SETTLE_SECONDS = 0.02


#: Child processes count as at rest when they used less than this share of a core for this long.
REST_SHARE, REST_SECONDS = 0.05, 0.5


def wait_for_children(limit_s: float = 30.0) -> bool:
    """Wait until the processes this one has started are at rest; False when they never were.

    Compilers keep workers, which go on importing torch for seconds after a model is compiled.
    """
    end = time.perf_counter() + limit_s
    used, since = _children_seconds(), time.perf_counter()
    while time.perf_counter() < end:
        time.sleep(REST_SECONDS)
        now_used, now = _children_seconds(), time.perf_counter()
        if now_used - used < REST_SHARE * (now - since):
            return True
        used, since = now_used, now
    return False


def _children_seconds() -> float:
    """Processor seconds of all child processes that run now."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # ended in between
            times = child.cpu_times()
            total += times.user + times.system
    return total


#: A call that takes this long need not be repeated to be at speed.
LONG_CALL_SECONDS = 10 * SETTLE_SECONDS

#: Rounds of long calls stop after this time, but for so many.
ROUNDS_SECONDS, FEWEST_ROUNDS = 60.0, 5


def _settle(call: Callable[[], object], seconds: float) -> None:
    """Let the contender before come to rest, and this one, whose calls take ``seconds``, come up
    to speed.

    OpenMP's threads spin for milliseconds after their last work and would take a core from the next
    contender; after a rest, the first calls of every thread pool are slower than those that follow.
    """
    time.sleep(SETTLE_SECONDS)
    if seconds > LONG_CALL_SECONDS:
        return
    end = time.perf_counter() + SETTLE_SECONDS
    call()
    while time.perf_counter() < end:
        call()


def _sample(call: Callable[[], object], calls: int) -> float:
    """Seconds a call, averaged over ``calls`` of them."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def interleave(
    calls: Mapping[str, Callable[[], object]],
    rounds: int,
    on_round: Callable[[int], None] = lambda done: None,
) -> dict[str, Timing]:
    """Time callables round-robin, so that a slow minute of the machine hits all alike.

    Each round starts with another callable, so none always runs on the caches its predecessor
    left behind. The callables must be compiled already; each gets two calls to warm up, and again
    some before each sample (see ``_settle``). Fewer than ``rounds`` are made where they would take
    longer than ``ROUNDS_SECONDS``.
    """
    per_sample: dict[str, int] = {}
    typical: dict[str, float] = {}
    for name, call in calls.items():
        call()
        typical[name] = _sample(call, 1)
        per_sample[name] = max(1, math.ceil(MIN_SAMPLE_SECONDS / max(typical[name], 1e-7)))
    if rounds > FEWEST_ROUNDS and typical:
        affordable = int(ROUNDS_SECONDS / sum(typical.values()))
        rounds = min(rounds, max(FEWEST_ROUNDS, affordable))
    names = list(calls)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for index in range(rounds):
        start = index % len(names) if names else 0
        for name in names[start:] + names[:start]:
            _settle(calls[name], typical[name])
            samples[name].append(_sample(calls[name], per_sample[name]) * 1e3)
        on_round(index + 1)
    return {name: summarise(samples[name], per_sample[name]) for name in names}
