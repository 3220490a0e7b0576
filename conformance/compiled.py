"""Samples compiled with the backend, with static shapes."""

from __future__ import annotations

from typing import Any

import torch

from conformance.cases import Case, Way
from conformance.fallbacks import FallbackLog
from tests.device.agreement import poisoned_memory

#: Operators with a size or a number that depends on data, for which PyTorch is told to keep the
#: call in the graph; by default Dynamo leaves the graph there. (With the settings on, Dynamo
#: itself fails for ``combinations``, and promises too few results of a masked_select that
#: broadcasts.)
_CAPTURED = frozenset(
    {
        "argwhere",
        "item",
        "nn.functional.gaussian_nll_loss",
        "nonzero",
        "unique",
        "unique_consecutive",
    }
)


class Compiled:
    """``device`` as options={'device': ...} takes it; None for the first one."""

    def __init__(self, device: str | None) -> None:
        self._options: dict[str, Any] = {"verify": True} | ({"device": device} if device else {})
        self._log = FallbackLog()

    def results(self, op: str, case: Case, seed: int) -> Any:
        torch._dynamo.reset()
        self._log.reasons.clear()
        with poisoned_memory(), torch._dynamo.config.patch(_captured(op)):
            return case.results(Way(self._compiled), seed)

    def on_host(self) -> dict[str, str]:
        return self._log.found()

    def _compiled(self, f: Any) -> Any:
        return torch.compile(f, backend="opencl", dynamic=False, options=self._options)


def _captured(op: str) -> dict[str, bool]:
    """What Dynamo keeps in the graph. Without the first it leaves recurrent modules alone."""
    sizes = op in _CAPTURED
    return {
        "allow_rnn": True,
        "capture_dynamic_output_shape_ops": sizes,
        "capture_scalar_outputs": sizes,
    }
