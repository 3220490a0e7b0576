"""What a measuring process is told to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Mode = Literal["inference", "training"]
What = Literal["accuracy", "performance"]
Kind = Literal["accuracy", "first_use", "cold", "timed", "throughput", "overhead", "environment"]


@dataclass(frozen=True, slots=True)
class Job:
    """One process's work on one model. Plain values, so that it travels as JSON.

    Attributes:
        kind: ``accuracy`` of one backend; ``first_use``, one backend on a trivial model; ``cold``,
            one backend alone from a model's first call;
            ``timed``, all ``backends`` in turns; ``throughput``, one backend at one batch size;
            ``overhead``, the dispatch-overhead programs; ``environment``.
        name: of the model; ``config`` is the path of its row, or ``torchbench`` the folder of a
            checkout of the real suite; ``family``: it is an architecture of transformers or timm.
        backends: as ``Backend.parse`` reads them.
        batch_size: None for the row's own.
        sizes: other values for the row's size symbols.
        dtype: ``float32``, ``float16``, ``bfloat16`` or ``amp``.
        dynamic: compile for dynamic shapes.
        repeat: timed rounds.
        threads: of torch; None leaves its default.
        loss_curve: also compare the losses of ten training steps.
        expected: the status the row says it reaches.
        references: a file for what backends are compared with (``references.py``); the first
            process makes it. None to keep nothing.
    """

    kind: Kind
    name: str = ""
    config: str | None = None
    torchbench: str | None = None
    mode: Mode = "inference"
    backends: tuple[str, ...] = ()
    batch_size: int | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    dtype: str = "float32"
    dynamic: bool = False
    repeat: int = 10
    threads: int | None = None
    loss_curve: bool = False
    expected: str = "pass"
    references: str | None = None
    family: bool = False

    @property
    def what(self) -> What:
        return "accuracy" if self.kind == "accuracy" else "performance"

    @property
    def config_path(self) -> Path:
        assert self.config is not None, "a job on a row has its path"
        return Path(self.config)

    def as_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Job:
        fields = dict(value)
        fields["backends"] = tuple(fields.get("backends", ()))
        fields["sizes"] = tuple((str(k), int(v)) for k, v in fields.get("sizes", ()))
        return cls(**fields)
