"""One launch of a plan, with its own kernel object, so that constant arguments are bound once."""

from __future__ import annotations

import numpy as np

from ocl_inductor.device.driver.handles import ClKernel
from ocl_inductor.plan.plan import Launch
from ocl_inductor.runtime.sizes import Sizes


class LaunchSite:
    """One kernel object with its size arguments."""

    __slots__ = ("kernel", "step", "global_size")

    def __init__(self, kernel: ClKernel, step: Launch) -> None:
        self.kernel = kernel
        self.step = step
        self.global_size: tuple[int, ...] | None = None

    def prepare(self, sizes: Sizes) -> tuple[int, ...]:
        """Set size arguments and return the global size; done once in a static plan."""
        if self.global_size is not None and not sizes.dynamic:
            return self.global_size
        first = len(self.step.buffers)
        for position, text in enumerate(self.step.scalars):
            self.kernel.set_arg(first + position, np.int64(sizes(text)))
        if self.global_size is None:
            first += len(self.step.scalars)
            for position, value in enumerate(self.step.literals):
                self.kernel.set_arg(first + position, np.int32(value))
        self.global_size = sizes.all(self.step.global_size)
        return self.global_size
