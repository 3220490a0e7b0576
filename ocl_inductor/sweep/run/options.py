"""How a sweep runs its models, and the command line that says so."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.job import Job, Kind, Mode, What
from ocl_inductor.sweep.rows.config import CONFIGS
from ocl_inductor.sweep.rows.selection import SelectedRow
from ocl_inductor.sweep.status import Status

#: Accuracy needs more than one sample, so that mistakes in batches show, but not many.
ACCURACY_BATCH = 4


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Everything about a sweep apart from which models it runs.

    Attributes:
        backends: compared with eager.
        batch_size: instead of each row's own.
        cold_start: ``compilation_latency`` is that of empty caches, rather than of filled ones.
        repeat: timed rounds.
        sizes: other values of the rows' size symbols.
    """

    modes: tuple[Mode, ...] = ("inference",)
    whats: tuple[What, ...] = ("accuracy",)
    backends: tuple[Backend, ...] = (Backend("opencl"),)
    dtype: str = "float32"
    batch_size: int | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    dynamic: bool = False
    cold_start: bool = False
    repeat: int = 10
    threads: int | None = None
    loss_curve: bool = False
    limits: Limits = Limits(1200.0)

    def batch_for(self, row: SelectedRow, mode: Mode, what: What) -> int:
        if self.batch_size is not None:
            return self.batch_size
        own = row.batch_size(mode)
        return min(own, ACCURACY_BATCH) if what == "accuracy" else own

    def sizes_for(self, row: SelectedRow) -> tuple[tuple[str, int], ...]:
        """The given sizes that this row knows."""
        known = row.config.sizes if row.config is not None else {}
        return tuple((symbol, size) for symbol, size in self.sizes if symbol in known)

    def job(
        self,
        kind: Kind,
        row: SelectedRow,
        mode: Mode,
        backends: tuple[Backend, ...],
        **changes: object,
    ) -> Job:
        """One process's work. ``changes`` are fields of ``Job``."""
        what: What = "accuracy" if kind == "accuracy" else "performance"
        fields: dict[str, Any] = {
            "kind": kind,
            "name": row.name,
            "config": None if row.config_path is None else str(row.config_path),
            "torchbench": None if row.torchbench is None else str(row.torchbench),
            "family": row.family,
            "mode": mode,
            "backends": tuple(b.label for b in backends),
            "batch_size": self._batch_of_job(row, mode, what),
            "sizes": self.sizes_for(row),
            "dtype": self.dtype,
            "dynamic": self.dynamic,
            "repeat": self.repeat,
            "threads": self.threads,
            "loss_curve": self.loss_curve,
            "expected": row.expected(mode),
        }
        return Job(**{**fields, **changes})

    def _batch_of_job(self, row: SelectedRow, mode: Mode, what: What) -> int | None:
        if row.torchbench is not None:
            return self.batch_size  # TorchBench's models have defaults of their own
        return self.batch_for(row, mode, what)

    def command(
        self,
        row: SelectedRow,
        mode: Mode,
        what: What,
        backend: Backend,
        status: Status = Status.PASS,
    ) -> str:
        """The command that repeats one result of this sweep alone.

        ``status``: what came out; where a limit ended it, the command has that limit.
        """
        words = ["ocl-inductor", "sweep", "run", "--only", row.name, f"--{mode}", f"--{what}"]
        if row.family:
            words.insert(3, "--families")
        words += ["--backend", backend.label]
        if self.dtype != "float32":
            words += [f"--{self.dtype}"]
        if self.batch_size is not None:
            words += ["--batch-size", str(self.batch_size)]
        for symbol, size in self.sizes_for(row):
            words += ["--size", f"{symbol}={size}"]
        if self.dynamic:
            words += ["--dynamic-shapes"]
        if self.threads is not None:
            words += ["--threads", str(self.threads)]
        if self.loss_curve and what == "accuracy" and mode == "training":
            words += ["--loss-curve"]
        if status is Status.TIMEOUT:
            words += ["--timeout", f"{self.limits.timeout_s:g}"]
        elif status in (Status.OOM, Status.EAGER_OOM) and self.limits.memory_bytes is not None:
            words += ["--memory-limit", f"{self.limits.memory_bytes / 2**30:.2f}"]
        if row.torchbench is not None:
            words += ["--torchbench", _path(row.torchbench)]
        elif row.config_path is not None and row.config_path.parent != CONFIGS:
            words += ["--configs", _path(row.config_path.parent)]
        return shlex.join(words)

    def settings(self) -> dict[str, Any]:
        """The options as plain values, for the header of the results."""
        return {
            "modes": list(self.modes),
            "whats": list(self.whats),
            "backends": [b.label for b in self.backends],
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "sizes": dict(self.sizes),
            "dynamic_shapes": self.dynamic,
            "cold_start_latency": self.cold_start,
            "repeat": self.repeat,
            "threads": self.threads,
            "loss_curve": self.loss_curve,
            "timeout_s": self.limits.timeout_s,
            "memory_limit_gib": (
                None
                if self.limits.memory_bytes is None
                else round(self.limits.memory_bytes / 2**30, 2)
            ),
        }


def _path(path: Path) -> str:
    """A path below the working directory as a relative one."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
