"""Simpler forms of a graph, for a driver whose compiler crashes or hangs on a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ocl_inductor.device.device import Device
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.errors import CompilerFailedError
from ocl_inductor.log import logger
from ocl_inductor.runtime.build.programs import leave_out_broken_builtins
from ocl_inductor.settings import Settings

_log = logger(__name__)
_Made = TypeVar("_Made")
#: Float32 lanes of the narrowest vectors: every processor has them.
_FEWEST_LANES = 4


@dataclass(frozen=True, slots=True)
class Form:
    """How a graph is compiled.

    Attributes:
        lanes: float32 values in a vector, where that is fewer than the device's; 0: the device's.
        on_host: FX nodes that ATen runs, even if there are kernels for them.
    """

    lanes: int = 0
    on_host: frozenset[str] = frozenset()

    def of(self, info: DeviceInfo) -> DeviceInfo:
        """The facts to compile with."""
        if not self.lanes or info.profile != "vector":
            return info
        return dataclasses.replace(info, vector_width=min(self.lanes, info.vector_width))


WHOLE = Form()


def in_simplest_needed(make: Callable[[Form], _Made], device: Device, settings: Settings) -> _Made:
    """The result of ``make`` in the first form that the driver's compiler builds.

    First, functions on which it fails are avoided, then vectors get narrower, then operators of
    kernels that still fail are run on the host.

    Raises:
        CompilerFailedError: a kernel is built in no form, or would go to the host with
            ``fallback="error"``.
    """
    form = WHOLE
    while True:
        try:
            return make(form)
        except CompilerFailedError as error:
            if form == WHOLE and leave_out_broken_builtins(device, settings):
                continue
            info = device.info.for_settings(settings)
            form = _simpler(form, form.of(info), settings, error)
            how = (
                f"{', '.join(sorted(form.on_host))} on the host"
                if form.on_host
                else (f"vectors of {form.lanes} lanes")
            )
            _log.warning(
                "the driver's compiler fails on kernel %s; the graph is compiled again, with %s",
                error.facts["kernel"],
                how,
            )


def _simpler(form: Form, info: DeviceInfo, settings: Settings, error: CompilerFailedError) -> Form:
    if info.profile == "vector" and info.vector_width > _FEWEST_LANES:
        return dataclasses.replace(form, lanes=info.vector_width // 2)
    more = frozenset(error.facts["nodes"]) - form.on_host
    if not more or settings.fallback == "error":
        raise error
    return dataclasses.replace(form, on_host=form.on_host | more)
