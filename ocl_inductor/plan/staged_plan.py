"""A graph whose sizes depend on data, as a chain of plans: later stages use sizes found earlier.

A stage is a plan, or one operator of ATen whose result's size only it knows. Plain data, like
:mod:`ocl_inductor.plan.plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ocl_inductor.plan.plan import HostCall, Plan, SizeText
from ocl_inductor.plan.residence import Residence


@dataclass(frozen=True, slots=True)
class Learned:
    """Size ``symbol`` is what ``path`` (keys of a pytree) finds in the value ``name``; in its only
    element where ``item`` says so.
    """

    symbol: str
    name: str
    path: tuple[Any, ...]
    item: bool = True


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """An assertion of the model about its sizes, with its message."""

    condition: SizeText
    message: str


@dataclass(frozen=True, slots=True)
class PlanStage:
    """``inputs`` and ``results``: names of values, and of sizes, in the order of the plan's."""

    plan: Plan
    inputs: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostStage:
    """An operator whose arguments are names (``TensorRef``) and sizes; ``results``: the names of
    the items of its result that are used, or of the result itself at None.
    """

    call: HostCall
    results: tuple[tuple[int | None, str], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A stage (None: nothing to run), then what is known after it."""

    stage: PlanStage | HostStage | None
    learned: tuple[Learned, ...]
    checks: tuple[SizeCheck, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What the graph returns at one position."""

    kind: Literal["value", "size", "real", "constant"]
    value: Any


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """``inputs``: names of the graph's arguments; ``sizes``: those that are sizes; ``residence``:
    see :class:`Plan`.
    """

    inputs: tuple[str, ...]
    sizes: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    results: tuple[Result, ...]
    residence: Residence | None = None
