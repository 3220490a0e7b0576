"""One launch of a plan, with its own kernel object, so that constant arguments are bound once."""

from __future__ import annotations

import math

import numpy as np

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClKernel
from ocl_inductor.errors import LoopLimitError
from ocl_inductor.plan.plan import Launch
from ocl_inductor.runtime.sizes import Sizes


class LaunchSite:
    """One kernel object with its size arguments."""

    __slots__ = ("device", "kernel", "prepared", "step")

    def __init__(self, kernel: ClKernel, step: Launch, device: Device) -> None:
        self.kernel = kernel
        self.step = step
        self.device = device
        self.prepared = False

    def prepare(self, sizes: Sizes) -> tuple[int, ...]:
        """Set size arguments and return the global size: once for a plan of static sizes, else
        before each launch.

        Raises:
            LoopLimitError: the driver would end the kernel's loops too early.
        """
        first = len(self.step.buffers)
        for position, text in enumerate(self.step.scalars):
            self.kernel.set_arg(first + position, np.int64(sizes(text)))
        if not self.prepared:
            first += len(self.step.scalars)
            for position, value in enumerate(self.step.literals):
                self.kernel.set_arg(first + position, np.int32(value))
            self.prepared = True
        global_size = sizes.all(self.step.global_size)
        if self.step.rounds:
            rounds = sizes(self.step.rounds) // max(1, math.prod(global_size))
            most = self.device.info.most_iterations
            if rounds > most:
                raise LoopLimitError(str(self.device), rounds, most)
        return global_size
