"""What a model of the zoo is: how to build it, and what to feed it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ocl_inductor.sweep.rows.resolve import resolve
from ocl_inductor.sweep.rows.weights import calibrate, enliven

WEIGHT_SEED = 1234


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of one call of a model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def to(self, dtype: torch.dtype) -> Inputs:
        """The same arguments with floating-point tensors in ``dtype``."""
        return Inputs(
            tuple(_to(a, dtype) for a in self.args),
            {k: _to(v, dtype) for k, v in self.kwargs.items()},
        )

    def double(self) -> Inputs:
        """The same arguments with floating-point tensors in float64."""
        return self.to(torch.float64)


def _to(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the zoo; ``constructor`` and ``arguments`` are as in a row of the sweep.

    Attributes:
        name: the key in the registry.
        family: "vision", "text", "recurrent", "tabular", "micro", or "row" for one of the sweep.
        constructor: ``package.module:callable``, which makes the module.
        make_inputs: ``make_inputs(small, batch, generator)`` makes the arguments of a call.
        arguments: of the constructor, with the explicit configuration.
        small: those which differ in the small form; None where there is no such form.
        batch: the batch used for benchmarks; ``small_batch`` the one used for tests.
        dynamo_config: settings of ``torch._dynamo.config`` without which it does not capture.
    """

    name: str
    family: str
    constructor: str
    make_inputs: Callable[[bool, int, torch.Generator], Inputs]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] | None = field(default_factory=dict)
    batch: int = 1
    small_batch: int = 2
    dynamo_config: Mapping[str, Any] = field(default_factory=dict)

    def build(self, small: bool = False) -> nn.Module:
        """The model in eval mode, its weights fixed by ``WEIGHT_SEED``."""
        constructor = resolve(self.constructor, self.name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(WEIGHT_SEED)
            model: nn.Module = constructor(**{**self.arguments, **self._different(small)})
            model.eval()
            enliven(model)
            inputs = self.inputs(small, batch=16 if small else 4, seed=99)
            calibrate(model, lambda: model(*inputs.args, **inputs.kwargs))
        return model.requires_grad_(False)

    def inputs(self, small: bool = False, batch: int | None = None, seed: int = 0) -> Inputs:
        """Arguments of one call; ``batch`` defaults to the entry's own."""
        self._different(small)
        if batch is None:
            batch = self.small_batch if small else self.batch
        return self.make_inputs(small, batch, torch.Generator().manual_seed(seed))

    def _different(self, small: bool) -> Mapping[str, Any]:
        """The arguments of the constructor that the form has for itself.

        Raises:
            ValueError: there is no small form.
        """
        if not small:
            return {}
        if self.small is None:
            raise ValueError(f"{self.name} is a row of the sweep, which has no small form")
        return self.small

    @contextlib.contextmanager
    def dynamo(self) -> Iterator[None]:
        """The Dynamo settings this model needs; hold it around compilation and calls."""
        with torch._dynamo.config.patch(dict(self.dynamo_config)):
            yield


def tensor_outputs(value: Any, path: str = "out") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors of a nested output with the path to each; ModelOutputs are mappings."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensor_outputs(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from tensor_outputs(item, f"{path}[{index}]")
