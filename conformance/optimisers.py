"""Samples of PyTorch's list of optimisers, ``optim_db``: three steps of a compiled ``step``."""

from __future__ import annotations

from typing import Any

import torch

from conformance.cases import Case, Way, at_home, tensors
from conformance.rows import OPTIMISER, STEP, Row

STEPS = 3

#: Parameters: a matrix, a vector, one element, and a tensor of rank 4; Muon takes matrices only.
SHAPES = ((20, 6), (20,), (1,), (3, 2, 3, 3))
MATRICES = ((20, 6), (5, 33))


class Optimiser:
    """One entry; each of its samples as PyTorch chooses by itself, and with ``foreach=True``."""

    def __init__(self, entry: Any) -> None:
        self.entry = entry

    def supports(self, dtype: str, direction: str) -> bool:
        return dtype == "float32" and direction == STEP

    def cases(self, row: Row) -> list[Case]:
        cases = []
        for sample in self.entry.optim_inputs_func(device="cpu"):
            cases.append(self._case(row, dict(sample.kwargs)))
            if "foreach" in self.entry.supported_impls:
                cases.append(self._case(row, {**sample.kwargs, "foreach": True}))
        return cases

    def _case(self, row: Row, kwargs: dict[str, Any]) -> Case:
        matrices = self.entry.optim_cls.__name__ == "Muon"

        def results(way: Way, seed: int) -> Any:
            dtype = torch.float64 if way.wide else getattr(torch, row.dtype)
            g = torch.Generator().manual_seed(seed)
            shapes = MATRICES if matrices else SHAPES

            def numbers(shape: tuple[int, ...]) -> torch.Tensor:
                return torch.randn(shape, generator=g).to(way.device, dtype)

            params = [torch.nn.Parameter(numbers(s)) for s in shapes]
            # A tensor among the arguments (a learning rate, say) belongs to one run.
            own = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
            optimiser = self.entry.optim_cls(params, **own)
            if self.entry.only_supports_sparse_grads:
                raise NotImplementedError("gradients are sparse")
            gradients = [[numbers(s) for s in shapes] for _ in range(STEPS)]
            step = way.wrap(self._step(optimiser, params))
            for grads in gradients:
                for p, grad in zip(params, grads):
                    p.grad = grad.clone()
                step()
            return at_home(([p.detach() for p in params], _state(optimiser, params)))

        return Case(results)

    def _step(self, optimiser: Any, params: list[torch.nn.Parameter]) -> Any:
        def closure() -> torch.Tensor:
            loss = sum((p * p).sum() for p in params)
            for p in params:
                p.grad = 2 * p.detach()
            return loss.detach()

        def step() -> None:
            if self.entry.step_requires_closure:
                optimiser.step(closure)
            else:
                optimiser.step()

        return step


def _state(optimiser: Any, params: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [t.detach() for p in params for t in tensors(dict(optimiser.state[p]))]


def optimisers() -> dict[str, Optimiser]:
    """PyTorch's list by name, as ``optim.Adam``."""
    from torch.testing._internal.common_optimizers import optim_db

    return {f"{OPTIMISER}.{entry.optim_cls.__name__}": Optimiser(entry) for entry in optim_db}
