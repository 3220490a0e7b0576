"""Indices out of range, and values that eager refuses: kernels record the first one of a call,
which raises at its end."""

from __future__ import annotations

import ctypes

import torch

from ocl_inductor.errors import (
    IndexOutOfRangeError,
    IntegerDivisionError,
    OpenCLInductorError,
    RefusedValueError,
)
from ocl_inductor.plan.plan import (
    DIVIDED_BY_ZERO,
    FAULT,
    FAULT_WORDS,
    UNKNOWN_INDEX,
    IndexCheckSpec,
    Plan,
)
from ocl_inductor.runtime.memory.strategy import Strategy
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.runtime.stream import CommandStream


class Faults:
    """The words in which a plan's kernels record a fault.

    ``words``: as seen by the host after a call; all 0 if nothing was found.
    """

    def __init__(self, plan: Plan, memory: Strategy, sizes: Sizes) -> None:
        self.checks, self.memory, self.sizes = plan.checks, memory, sizes
        self.host = torch.zeros(FAULT_WORDS, dtype=torch.int32, device="cpu")
        self.words: ctypes.Array[ctypes.c_int32] = (ctypes.c_int32 * FAULT_WORDS).from_address(
            self.host.data_ptr()
        )
        self.nbytes = ctypes.sizeof(self.words)
        self.buffer = memory.input(memory.stream, FAULT, self.host, self.nbytes)

    def expect(self, stream: CommandStream) -> None:
        """Before a call: download the words with its results, where there are transfers."""
        self.memory.output(stream, FAULT, self.host, self.nbytes)

    def check(self, stream: CommandStream) -> None:
        """After a call.

        Raises:
            IndexOutOfRangeError, IntegerDivisionError, RefusedValueError: a kernel has found one.
        """
        if self.words[0]:
            raise self._error(stream)

    def _error(self, stream: CommandStream) -> OpenCLInductorError:
        number, _, low, high = self.words
        self.host.zero_()
        self.memory.write(stream, self.buffer, self.host, self.nbytes)
        found: IndexCheckSpec = self.checks[number - 1]
        if found.refused == DIVIDED_BY_ZERO:
            return IntegerDivisionError(found.operator, found.source)
        if found.refused:
            return RefusedValueError(found.refused, found.source)
        kept = (high << 32) | (low & 0xFFFFFFFF)
        index = None if kept == UNKNOWN_INDEX else kept
        extent = self.sizes(found.extent)
        return IndexOutOfRangeError(found.operator, index, found.dim, extent, found.source)
