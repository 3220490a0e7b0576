"""What is told of each call of an operator that gets a graph, or none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.eager.prebuild.call_lines import line_of
from ocl_inductor.log import logger

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """``line``: the call as ``call_lines`` writes it, "" where it cannot. ``seconds``: to have it.
    ``kept``: it was on disk. ``on_host``: why there is no graph, "" where there is one."""

    operator: str
    line: str
    seconds: float
    kept: bool = False
    on_host: str = ""

    def __str__(self) -> str:
        if self.on_host:
            return f"{self.operator} runs on the host: {self.on_host}"
        how = "was there" if self.kept else f"{self.seconds:.2f} s"
        return f"{self.operator}: {how}"


def tell(
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: dict[str, object],
    seconds: float,
    *,
    kept: bool = False,
    on_host: str = "",
) -> None:
    """Log an :class:`OperatorGraph`, if that is wanted."""
    if log.isEnabledFor(logging.INFO):
        line = line_of(op, args, kwargs)
        log.info("%s", OperatorGraph(str(op), line, seconds, kept, on_host))
