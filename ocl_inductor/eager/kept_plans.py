"""Plans of single operators and of lazy graphs on disk, so that another process need not compile
them again.

The plan of a compiled function is found by AOTAutograd, after tracing (warm_start.py). An operator
is determined by its call, a lazy graph by its record: the key is the text of that, with the
dependencies of every plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from ocl_inductor.capture.warm.plan_key import plan_key
from ocl_inductor.device.device import Device
from ocl_inductor.log import logger
from ocl_inductor.plan.plan import Plan
from ocl_inductor.plan.plan_bytes import PlanNotStorable, dump_plan, load_plan
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.counters import count, count_plan
from ocl_inductor.runtime.store.plan_files import PlanFiles
from ocl_inductor.settings import Settings

_log = logger(__name__)


class KeptPlan:
    """The stored plan of what ``text`` determines: equal texts, equal graphs.

    ``found``: whether ``get`` has found it on disk.
    """

    def __init__(self, kind: str, text: object, settings: Settings, device: Device) -> None:
        self._settings, self._device = settings, device
        self.found = False
        self._files: PlanFiles | None = None
        if settings.cache and settings.debug_dir is None:
            self._files = PlanFiles(settings.cache_dir / "plans", settings.cache_size_limit)
            around = plan_key(device.info.for_settings(settings), settings)
            self._key = hashlib.sha256(repr((kind, around, text)).encode()).hexdigest()

    def read(self) -> Executor | None:
        """Its executor, if it is stored."""
        for content in self._files.read(self._key) if self._files is not None else ():
            try:
                executor = Executor(load_plan(content), self._device, self._settings)
            except Exception as error:  # another version of something
                _log.info("plan %s cannot be used: %s", self._key, error)
                continue
            count_plan(executor.plan)
            count("plan_hits")
            return executor
        return None

    def write(self, plan: Plan) -> None:
        """Store it; no effect where that is not possible."""
        if self._files is None:
            return
        try:
            self._files.write(self._key, dump_plan(plan))
        except PlanNotStorable as error:
            _log.info("plan not kept: %s", error)

    def get(self, compile_it: Callable[[], Any]) -> Callable[..., Any]:
        """The function of the stored plan, or else of a compiled one, which is stored."""
        kept = self.read()
        self.found = kept is not None
        if kept is not None:
            return kept.function()
        found = compile_it()
        if not isinstance(found, Executor):
            return found  # type: ignore[no-any-return]
        count("plan_misses")
        self.write(found.plan)
        return found.function()
