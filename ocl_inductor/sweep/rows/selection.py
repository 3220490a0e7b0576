"""Which models a sweep runs: suites, names, patterns and partitions, in dynamobench's words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.process.job import Mode
from ocl_inductor.sweep.rows.config import CONFIGS, load_all
from ocl_inductor.sweep.rows.schema import ModelConfig

_MODELS = ("torchbenchmark", "models")


class BadSelectionError(OpenCLInductorError):
    """A selection that cannot be made: a bad pattern or partition."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class NoTorchBenchError(OpenCLInductorError):
    """A folder that is no checkout of TorchBench."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder} has no folder {'/'.join(_MODELS)}; --torchbench names a checkout of "
            "github.com/pytorch/benchmark.",
            folder=str(folder),
        )


def list_torchbench(folder: Path) -> list[str]:
    """The names of a checkout's models, in alphabetical order.

    Raises:
        NoTorchBenchError: ``folder`` is something else.
    """
    models = folder.joinpath(*_MODELS)
    if not models.is_dir():
        raise NoTorchBenchError(folder)
    return sorted(p.parent.name for p in models.glob("*/__init__.py"))


@dataclass(frozen=True, slots=True)
class SelectedRow:
    """One model a sweep may run: a row of the sweep, a model of a TorchBench checkout, a family."""

    name: str
    domain: str = "torchbench"
    config: ModelConfig | None = None
    config_path: Path | None = None
    torchbench: Path | None = None
    family: bool = False

    def runs(self, mode: Mode) -> bool:
        return self.config is None or mode in self.config.modes

    def expected(self, mode: Mode) -> str:
        return "pass" if self.config is None else self.config.expected(mode)

    def why(self, field: str) -> str:
        """What the row says about one of its exceptions."""
        return "" if self.config is None else self.config.why.get(field, "")

    def batch_size(self, mode: Mode) -> int:
        if self.config is None:
            return 1
        if mode == "inference":
            return self.config.batch.inference
        return self.config.batch.training or 1


@dataclass(frozen=True, slots=True)
class Selection:
    """What to run.

    Attributes:
        suite: ``schema.Suite``, or ``full``, which has every row.
        only: exact names, which win over ``suite``.
        keep, exclude: regular expressions searched in names, ignoring case.
        partitions, partition: split the rest into equal contiguous parts and take one.
        torchbench: the folder of a checkout of the real suite, instead of this project's rows.
        configs: the folder with the rows.
        families: a pattern of names of architectures, which are run instead of rows.
    """

    suite: str = "full"
    only: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    partitions: int = 1
    partition: int = 0
    torchbench: Path | None = None
    configs: Path = CONFIGS
    families: str | None = None

    def rows(self) -> list[SelectedRow]:
        """The selected models, in alphabetical order.

        Raises:
            BadSelectionError: a pattern is no regular expression, there is no such partition, or no
                family of a name.
            ConfigError, UnknownModelError: a row is damaged, or a name has none.
        """
        if not 0 <= self.partition < self.partitions:
            raise BadSelectionError(
                f"There is no partition {self.partition} of {self.partitions}; "
                f"--partition-id goes from 0 to {self.partitions - 1}."
            )
        found = [row for row in self._all() if self._chosen(row.name)]
        return partition(found, self.partitions, self.partition)

    def _all(self) -> list[SelectedRow]:
        if self.families is not None:
            return self._families(self.families)
        if self.torchbench is not None:
            names = list_torchbench(self.torchbench)
            if unknown := sorted(set(self.only) - set(names)):
                raise BadSelectionError(f"{self.torchbench} has no model {', '.join(unknown)}.")
            return [
                SelectedRow(name, torchbench=self.torchbench)
                for name in names
                if not self.only or name in self.only
            ]
        rows = [
            SelectedRow(name, config.domain, config, self.configs / f"{name}.yaml")
            for name, config in load_all(self.configs, self.only or None).items()
        ]
        if self.only or self.suite == "full":
            return rows
        return [row for row in rows if row.config and self.suite in row.config.suites]

    def _families(self, pattern: str) -> list[SelectedRow]:
        from ocl_inductor.sweep.families.listing import families

        found = families(pattern)
        if unknown := sorted(set(self.only) - {family.name for family in found}):
            raise BadSelectionError(f"There is no family {', '.join(unknown)}.")
        return [
            SelectedRow(family.name, domain=family.library, family=True)
            for family in found
            if not self.only or family.name in self.only
        ]

    def _chosen(self, name: str) -> bool:
        if self.keep and not any(_search(pattern, name) for pattern in self.keep):
            return False
        return not any(_search(pattern, name) for pattern in self.exclude)


def _search(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name, re.IGNORECASE) is not None
    except re.error as error:
        raise BadSelectionError(f"{pattern!r} is no regular expression: {error}.") from error


def partition(items: Sequence[object], parts: int, index: int) -> list[Any]:
    """Part ``index`` of ``parts`` contiguous ones whose lengths differ by one at most."""
    start = len(items) * index // parts
    return list(items[start : len(items) * (index + 1) // parts])
