"""Samples of PyTorch's list of modules, ``module_db``, in training and evaluation mode."""

from __future__ import annotations

import copy
from typing import Any

import torch

from conformance.cases import Case, Way, at_home, copied, detached, gradients, tensors, widened
from conformance.rows import BACKWARD, FORWARD, MODULE, Row


class Module:
    """One entry; its samples are constructors' arguments with forward arguments."""

    def __init__(self, entry: Any) -> None:
        self.entry = entry

    def supports(self, dtype: str, direction: str) -> bool:
        return dtype == "float32" and direction in (FORWARD, BACKWARD)

    def cases(self, row: Row) -> list[Case]:
        both = (True, False) if self.entry.train_and_eval_differ else (True,)
        return [
            self._case(row, sample, training)
            for training in both
            for sample in self.entry.module_inputs_func(
                self.entry,
                device="cpu",
                dtype=getattr(torch, row.dtype),
                requires_grad=row.direction == BACKWARD,
                training=training,
            )
        ]

    def _case(self, row: Row, sample: Any, training: bool) -> Case:
        made = self.entry.module_cls(
            *sample.constructor_input.args, **sample.constructor_input.kwargs
        )
        made = made.to(getattr(torch, row.dtype)).train(training)
        forward = sample.forward_input
        arguments = tuple(forward.args), dict(forward.kwargs)

        def results(way: Way, seed: int) -> Any:
            wrap = way.wrap
            module, (args, kwargs) = copy.deepcopy(made), copied(arguments, way.device)
            module = module.to(way.device)
            if way.wide:
                module, (args, kwargs) = module.double(), widened((args, kwargs))
            torch.manual_seed(seed)
            if row.direction == FORWARD:
                with torch.no_grad():
                    out = wrap(module)(*args, **kwargs)
                return at_home((_plain(out), list(module.buffers())))
            out = _plain(wrap(module)(*args, **kwargs))
            every = (*tensors((args, kwargs)), *module.parameters())
            leaves = [t for t in every if t.requires_grad]
            found = gradients(out, leaves, seed)
            return at_home((detached(out), list(module.buffers()), found))

        # Dropout and its like: which modules they are is seen from their results.
        return Case(results, random=True)


def _plain(out: Any) -> Any:
    """Named tuples as tuples: those of Transformers' kind come back as either."""
    return tuple(out) if isinstance(out, tuple) else out


def modules() -> dict[str, Module]:
    """PyTorch's list by name, as ``module.nn.Linear``."""
    from torch.testing._internal.common_modules import module_db

    return {f"{MODULE}.{entry.name}": Module(entry) for entry in module_db}
