"""A program: inputs, and steps that are lines of Python; its source is what is compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from fuzz.values import filled

#: What a step does to rounding errors; see noise.py.
EXACT, ROUND, FUNCTION = "exact", "round", "function"
CANCELS, SUM, NORM = "cancels", "sum", "norm"

_NAME = re.compile(r"\b[it]\d+\b")
_FLOATS = re.compile(r"torch\.(float32|float16|bfloat16)\b")

_COPY = ".to(torch.float64, copy=True)"

#: Sizes by letter, for programs that run on two sizes.
Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that the program is called with.

    ``dims``: numbers, or letters that a table of sizes gives. ``alias``: an expression over earlier
    inputs, of which this one is a view; everything else but the name does not count then.
    """

    name: str
    dims: tuple[int | str, ...] = ()
    dtype: str = "float32"
    kind: str = "lattice"
    layout: str = "dense"
    seed: int = 0
    grad: bool = False
    alias: str = ""

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.dims)

    def make(self, sizes: Sizes, env: Mapping[str, Any], wide: bool) -> torch.Tensor:
        """``wide``: the same numbers in float64."""
        if self.alias:
            result: torch.Tensor = eval(self.alias, dict(env))
            return result
        dtype = getattr(torch, self.dtype)
        x = filled(self.seed, self.kind, self.shape(sizes), self.layout, dtype, wide=wide)
        return x.requires_grad_() if self.grad else x


@dataclass(frozen=True, slots=True)
class Step:
    """One line. ``targets``: names that it defines; none where it only writes memory."""

    text: str
    targets: tuple[str, ...]
    rounding: str = FUNCTION

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_NAME.findall(self.text)))

    @property
    def line(self) -> str:
        left = ", ".join(self.targets)
        return f"{left} = {self.text}" if self.targets else self.text


@dataclass(frozen=True, slots=True)
class Program:
    """``sizes``: one table, or two for a program that is compiled with dynamic shapes."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    sizes: tuple[Sizes, ...] = ({},)
    dynamic: bool = False
    backward: bool = False

    def source(self, name: str = "program") -> str:
        lines = [f"def {name}({', '.join(i.name for i in self.inputs)}):"]
        lines += [f"    {s.line}" for s in self.steps]
        lines += [f"    return [{', '.join(self.outputs)}]"]
        return "\n".join(lines) + "\n"

    def function(self) -> Callable[..., Any]:
        env: dict[str, Any] = {"torch": torch, "F": F}
        exec(self.source(), env)
        function: Callable[..., Any] = env["program"]
        return function

    def make_inputs(self, sizes: Sizes, wide: bool = False) -> dict[str, torch.Tensor]:
        made: dict[str, torch.Tensor] = {}
        for i in self.inputs:
            made[i.name] = i.make(sizes, made, wide)
        return made


def in_float64(text: str) -> str:
    """A line with every float type that it names replaced by float64."""
    # A conversion makes a copy, also one that would do nothing in float64.
    return _FLOATS.sub("torch.float64", text).replace(".to(torch.float64)", _COPY)


def names_in(text: str) -> set[str]:
    return set(_NAME.findall(text))
