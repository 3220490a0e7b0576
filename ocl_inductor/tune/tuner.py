"""``mode="max-autotune"``: the candidates of a template, tried on the device.

A choice is kept in ``<cache_dir>/tuned``, by device, driver, template and sizes, so that each is
measured once. A candidate whose numbers are wrong, or that does not build, is out before it is
timed. Nothing is measured in other modes.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.event_times import timed_ns
from ocl_inductor.settings import Settings
from ocl_inductor.support import json_cache
from ocl_inductor.support.private_folder import PrivateFolder
from ocl_inductor.templates.registry import SPECS
from ocl_inductor.templates.spec import TemplateSpec, choice_text, sizes_text, tunable_fields
from ocl_inductor.templates.trial import Trial
from ocl_inductor.tune.choice import TunedChoice, log
from ocl_inductor.tune.standalone import StandaloneKernel

_SCHEMA = 2
#: Seconds of timing for each candidate, and the least number of rounds.
_SECONDS = 0.05
_MIN_ROUNDS = 7
#: A candidate takes the place of the default only if it is faster by this factor: less is noise.
_MARGIN = 1.03
#: More bytes of operands than this are not tried: their upload would take longer than it is worth.
_MOST_BYTES = 1 << 30

P = TypeVar("P", bound=TemplateParams)


def tunable_templates() -> list[TemplateSpec[Any]]:
    """Those of all templates that have something to choose."""
    return [spec for spec in SPECS.values() if tunable_fields(spec.params)]


@dataclass(frozen=True, slots=True)
class Tuner:
    """Chooses among candidates by measuring; ``info`` is the device as the compiler sees it."""

    device: Device
    info: DeviceInfo
    settings: Settings

    def __call__(self, spec: TemplateSpec[P], candidates: Sequence[P]) -> int:
        """The position of the best of ``candidates``, whose sizes are numbers; the first is the
        default."""
        if len(candidates) < 2 or spec.trial is None:
            return 0
        texts = [choice_text(c) for c in candidates]
        key = _key(self.info, spec, candidates[0], texts)
        folder = PrivateFolder(self.settings.cache_dir).folder("tuned")
        known = json_cache.load(folder, key) if self.settings.cache else None
        if isinstance(known, dict) and known.get("choice") in texts:
            best = texts.index(known["choice"])
            seconds = {int(n): s for n, s in known.get("seconds", {}).items()}
            log.info("%s", _made(spec, candidates, seconds, best, kept=True))
            return best
        seconds = self.measure(spec, candidates)
        best = _choose(seconds)
        count("tuned_kernels")
        count("tuning_trials", len(seconds))
        log.info("%s", _made(spec, candidates, seconds, best))
        if self.settings.cache and seconds:
            json_cache.save(folder, key, {"choice": texts[best], "seconds": seconds})
        return best

    def measure(self, spec: TemplateSpec[P], candidates: Sequence[P]) -> dict[int, float]:
        """Median seconds of the candidates that give right numbers, by their positions."""
        assert spec.trial is not None
        trials: dict[int, Trial[P]] = {}
        for position, params in enumerate(candidates):
            trial = spec.trial(params, np.random.default_rng(0))
            if trial is None or sum(x.nbytes for x in trial.operands) > _MOST_BYTES:
                return {}
            trials[position] = trial

        def build(position: int) -> StandaloneKernel | None:
            trial = trials[position]
            try:
                return StandaloneKernel(
                    self.device, self.info.profile, spec, trial.params, len(trial.operands),
                    facts=self.info,
                )  # fmt: skip
            except load_pyopencl().Error as error:
                text = choice_text(candidates[position])
                log.info("%s does not build with %s: %s", spec.name, text, error)
                return None

        with ThreadPoolExecutor(self.settings.compile_threads) as pool:
            kernels = {p: k for p, k in zip(trials, pool.map(build, trials), strict=True) if k}
        right: dict[int, StandaloneKernel] = {}
        for position, kernel in kernels.items():
            trial = trials[position]
            got = kernel(*trial.operands)
            if np.abs(got - trial.expected).max(initial=0) <= trial.tolerance:
                right[position] = kernel
            else:  # NaN included
                text = choice_text(candidates[position])
                log.warning("%s gives wrong numbers with %s", spec.name, text)
        return self._time(right)

    def _time(self, kernels: Mapping[int, StandaloneKernel]) -> dict[int, float]:
        """Time the kernels in turns, so that a disturbance affects all of them."""
        cl = load_pyopencl()
        properties = cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(self.device.context, properties=properties)
        taken: dict[int, list[float]] = {p: [] for p in kernels}
        end = time.perf_counter() + _SECONDS * len(kernels)
        rounds = 0
        while kernels and (rounds < _MIN_ROUNDS or time.perf_counter() < end):
            for position, kernel in kernels.items():
                taken[position].append(timed_ns(partial(kernel.launch, queue)) * 1e-9)
            rounds += 1
        return {p: statistics.median(t) for p, t in taken.items()}


def _choose(seconds: Mapping[int, float]) -> int:
    """The fastest; the default where it is about as fast, or nothing could be measured."""
    if not seconds:
        return 0
    best = min(seconds, key=seconds.__getitem__)
    return 0 if 0 in seconds and seconds[0] < seconds[best] * _MARGIN else best


def _key(info: DeviceInfo, spec: TemplateSpec[P], params: P, candidates: Sequence[str]) -> str:
    shape = sizes_text(params)
    return json.dumps(
        [_SCHEMA, info.key, info.profile, info.vector_width, spec.name, shape, list(candidates)],
        sort_keys=True,
    )


def _made(
    spec: TemplateSpec[P],
    candidates: Sequence[P],
    seconds: Mapping[int, float],
    best: int,
    *,
    kept: bool = False,
) -> TunedChoice:
    return TunedChoice(
        template=spec.name,
        sizes=sizes_text(candidates[best]),
        choice=choice_text(candidates[best]),
        default=choice_text(candidates[0]),
        seconds={choice_text(candidates[n]): s for n, s in seconds.items()},
        flops=float(spec.flops(candidates[best])),
        kept=kept,
    )
