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
from typing import Any

import numpy as np

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.log import artifact
from ocl_inductor.runtime.counters import count
from ocl_inductor.settings import Settings
from ocl_inductor.support import json_cache
from ocl_inductor.support.private_folder import PrivateFolder
from ocl_inductor.templates.spec import Params
from ocl_inductor.tune.standalone import StandaloneKernel
from ocl_inductor.tune.trials import TRIALS, Trial

_log = artifact(__name__, "autotune")
_SCHEMA = 1
#: Seconds of timing for each candidate, and the least number of rounds.
_SECONDS = 0.05
_MIN_ROUNDS = 7
#: A candidate takes the place of the default only if it is faster by this factor: less is noise.
_MARGIN = 1.03
#: More bytes of operands than this are not tried: their upload would take longer than it is worth.
_MOST_BYTES = 1 << 30

Overrides = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tuner:
    """Chooses among candidates by measuring; ``info`` is the device as the compiler sees it."""

    device: Device
    info: DeviceInfo
    settings: Settings

    def __call__(self, template: str, params: Params, candidates: Sequence[Overrides]) -> Overrides:
        """The best of ``candidates``, which override ``params``; the first is the default.

        ``params``: the template's, with numbers for all sizes.
        """
        if len(candidates) < 2 or template not in TRIALS:
            return candidates[0]
        key = _key(self.info, template, params, candidates)
        folder = PrivateFolder(self.settings.cache_dir).folder("tuned")
        known = json_cache.load(folder, key) if self.settings.cache else None
        if isinstance(known, dict) and known.get("choice") in candidates:
            return dict(known["choice"])
        seconds = self.measure(template, params, candidates)
        best = _choose(seconds)
        count("tuned_kernels")
        count("tuning_trials", len(seconds))
        _log.info("%s", _sentence(template, params, candidates, seconds, best))
        chosen = candidates[best]
        if self.settings.cache and seconds:
            json_cache.save(folder, key, {"choice": dict(chosen), "seconds": seconds})
        return chosen

    def measure(
        self, template: str, params: Params, candidates: Sequence[Overrides]
    ) -> dict[int, float]:
        """Median seconds of the candidates that give right numbers, by their positions."""
        spec, make = TRIALS[template]
        trials: dict[int, Trial] = {}
        for position, overrides in enumerate(candidates):
            trial = make({**params, **overrides}, np.random.default_rng(0))
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
                _log.info("%s does not build as %s: %s", template, candidates[position], error)
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
                _log.warning("%s gives wrong numbers as %s", template, candidates[position])
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
                event = kernel.launch(queue)
                event.wait()
                taken[position].append((event.profile.end - event.profile.start) * 1e-9)
            rounds += 1
        return {p: statistics.median(t) for p, t in taken.items()}


def _choose(seconds: Mapping[int, float]) -> int:
    """The fastest; the default where it is about as fast, or nothing could be measured."""
    if not seconds:
        return 0
    best = min(seconds, key=seconds.__getitem__)
    return 0 if 0 in seconds and seconds[0] < seconds[best] * _MARGIN else best


def _key(info: DeviceInfo, template: str, params: Params, candidates: Sequence[Overrides]) -> str:
    names = sorted(set(params) - set(candidates[0]))
    shape = {n: params[n] for n in names}
    return json.dumps(
        [_SCHEMA, info.key, info.profile, info.vector_width, template, shape,
         [dict(c) for c in candidates]],
        sort_keys=True, default=str,
    )  # fmt: skip


def _sentence(
    template: str,
    params: Params,
    candidates: Sequence[Overrides],
    seconds: Mapping[int, float],
    best: int,
) -> str:
    spec, _ = TRIALS[template]
    if not seconds:
        return f"{template}: nothing could be tried"
    flops = float(spec.flops({**params, **candidates[best]}))
    rate = flops / seconds[best] / 1e9
    gain = f", {seconds[0] / seconds[best]:.2f} times the default" if best and 0 in seconds else ""
    what = " ".join(f"{k}={v}" for k, v in candidates[best].items())
    return f"{template}: {what} of {len(seconds)} candidates, {rate:.0f} GFLOP/s{gain}"
