"""Samples run operator by operator on ``ocl`` tensors, without torch.compile."""

from __future__ import annotations

import ctypes
import logging
import os
import re
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

from conformance.cases import Case, Way
from conformance.reasons import UNKNOWN
from ocl_inductor.errors import UnsupportedOperatorError
from ocl_inductor.log import logger
from tests.device.agreement import POISON

_PREFIX = "eager on host: "


class Eagerly:
    """``device``: the OpenCL device that ``ocl`` is, None for the first one."""

    def __init__(self, device: str | None) -> None:
        # On a CPU's driver as well: with the host's memory its kernels work in place, and nothing
        # would be checked.
        os.environ.setdefault("OCL_INDUCTOR_MEMORY", "discrete")
        os.environ.setdefault("OCL_INDUCTOR_VERIFY", "1")
        if device is not None:
            os.environ["OCL_INDUCTOR_DEVICE"] = device
        # Before any backward pass. Processes may fork behind it: OpenCL is asked for nothing yet.
        import ocl_inductor.eager  # noqa: F401

        self._log = HostLog()
        poison_memory()

    def results(self, op: str, case: Case, seed: int) -> Any:
        return case.results(Way(device="ocl"), seed)

    def on_host(self) -> dict[str, str]:
        """Operators that ran on the host since the counters were cleared, with their reasons."""
        names = [k[len(_PREFIX) :] for k in counters["opencl"] if k.startswith(_PREFIX)]
        return {name: self._log.reasons.get(name, "") for name in names}


class HostLog(logging.Filter):
    """Collects the reasons for which operators run on the host, instead of printing them.

    A reason is told when a form of an operator is first called, so they are kept.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}
        for module in ("one_node", "compiled"):
            log = logger(f"ocl_inductor.eager.{module}")
            log.setLevel(logging.INFO)
            log.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        operator, said = record.args  # type: ignore[misc]
        self.reasons.setdefault(str(operator), _reason(said))
        return False


def _reason(said: object) -> str:
    """In one line, of what the log is told: a reason, or the error that stopped a compilation."""
    if isinstance(said, UnsupportedOperatorError):
        return str(said.facts["reason"])
    if isinstance(said, (DynamicOutputShapeException, DataDependentOutputException)):
        return UNKNOWN
    lines = str(said).strip().splitlines() or [type(said).__name__]
    return re.sub(r" at 0x[0-9a-f]+", "", lines[0])[:300]


def poison_memory() -> None:
    """From now on memory of ``ocl`` tensors starts as NaN in this process."""
    from ocl_inductor.resident.allocator import Allocator, Block

    take = Allocator.take

    def poisoned(self: Allocator, size: int, wanted: int = 0) -> Block:
        block = take(self, size, wanted)
        if self.in_place:
            self.device.queue.finish()
            ctypes.memset(block.pointer, POISON, size)
        else:
            pattern = torch.tensor([POISON], dtype=torch.uint8, device="cpu").numpy()
            self.range(block.pointer, size).fill(self.device.queue, pattern)
        return block

    Allocator.take = poisoned  # type: ignore[method-assign]
