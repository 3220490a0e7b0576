"""One launch of a plan, with its own kernel object, so that constant arguments are bound once."""

from __future__ import annotations

import numpy as np

from ocl_inductor.device.driver.handles import ClKernel
from ocl_inductor.plan.plan import Launch
from ocl_inductor.runtime.sizes import Sizes


class LaunchSite:
    """One kernel object with its size arguments."""

    __slots__ = ("kernel", "prepared", "step")

    def __init__(self, kernel: ClKernel, step: Launch) -> None:
        self.kernel = kernel
        self.step = step
        self.prepared = False

    def prepare(self, sizes: Sizes) -> tuple[int, ...]:
        """Set size arguments and return the global size: once for a plan of static sizes, else
        before each launch."""
        first = len(self.step.buffers)
        for position, text in enumerate(self.step.scalars):
            self.kernel.set_arg(first + position, np.int64(sizes(text)))
        if not self.prepared:
            first += len(self.step.scalars)
            for position, value in enumerate(self.step.literals):
                self.kernel.set_arg(first + position, np.int32(value))
            self.prepared = True
        return sizes.all(self.step.global_size)
