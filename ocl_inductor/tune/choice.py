"""What was chosen for one template at one set of sizes, and the log that is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ocl_inductor.log import artifact


@dataclass(frozen=True)
class TunedChoice:
    """``template`` and ``sizes`` (its other parameters, as text): what it was chosen for.

    ``choice``, ``default``: values of the tunable fields, as text. ``seconds``: of each candidate
    that gave right numbers; empty: nothing could be tried. ``flops``: of the kernel. ``kept``: it
    was measured before.
    """

    template: str
    sizes: Mapping[str, str]
    choice: str
    default: str
    seconds: Mapping[str, float]
    flops: float
    kept: bool = False

    @cached_property
    def gain(self) -> float:
        """The default's time over the choice's; 1 where either is unknown."""
        if self.choice not in self.seconds or self.default not in self.seconds:
            return 1.0
        return self.seconds[self.default] / self.seconds[self.choice]

    @cached_property
    def gflop_s(self) -> float:
        """What the choice reaches; 0 where nothing could be tried."""
        return self.flops / self.seconds[self.choice] / 1e9 if self.choice in self.seconds else 0.0

    def __str__(self) -> str:
        if not self.seconds:
            return f"{self.template}: nothing could be tried"
        gain = f", {self.gain:.2f} times the default" if self.choice != self.default else ""
        kept = ", measured before" if self.kept else ""
        return (
            f"{self.template}: {self.choice} of {len(self.seconds)} candidates, "
            f"{self.gflop_s:.0f} GFLOP/s{gain}{kept}"
        )


#: ``TORCH_LOGS=opencl_autotune``: choices, and candidates that are out.
log = artifact(__name__, "autotune")
