"""``python -m benchmarks.gpu.lazy``: programs without torch.compile, on ``ocl``, eager and lazy.

The loop of ``benchmarks.lazy`` at some sizes, and training steps of networks with their optimiser.
CUDA's turn is a process of its own (``--contender cuda``): its autograd does not work in one with
the device ``ocl``.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import warnings
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.gpu.card import guarded
from benchmarks.gpu.clock import calls_ms
from benchmarks.gpu.line import line
from benchmarks.gpu.network import moved
from benchmarks.gpu.setup import Where, arguments, where
from benchmarks.lazy import OPERATORS, measure
from benchmarks.training import loss_of, trainable
from benchmarks.zoo import ALL
from ocl_inductor.support.torch_versions import storages_take_memory

SIZES = (64, 512, 2048)
NETWORKS = ("resnet18@16", "bert@4")
_ROUNDS = 300


def loop(size: int, there: str, wait: Callable[[], object], mode: str) -> None:
    """A line about the loop: a round with its values, and the host's part of an operator."""
    torch.manual_seed(0)
    given = torch.randn(size, size), torch.randn(size, size) / size**0.5, torch.randn(size)
    x, w, b = (t.to(there) for t in given)
    with torch.no_grad():
        whole, host, first = measure((x, w, b), _ROUNDS, wait)
    values = {"round_us": whole, "host_us": host, "first_us": first, "operators": OPERATORS}
    line("lazy", case=f"loop of {size}", mode=mode, **values)


def training(case: str, there: str, wait: Callable[[], object], place: Where, mode: str) -> None:
    """A line about a training step: forward, backward and SGD."""
    torch.manual_seed(0)
    name, _, batch = case.partition("@")
    entry = ALL[name]
    model = copy.deepcopy(trainable(entry, place.small)).to(there)
    inputs = moved(entry.inputs(place.small, batch=int(batch)), there)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)

    def step() -> None:
        optimiser.zero_grad()
        loss_of(model(*inputs.args, **dict(inputs.kwargs))).backward()
        optimiser.step()

    line("lazy", case=f"training {case}", mode=mode, round_us=calls_ms(step, 3, wait=wait) * 1e3)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", default="ocl", choices=("ocl", "cuda"))
    arguments(parser)
    parsed = parser.parse_args()
    place = where(parsed)
    if parsed.contender == "ocl":
        importlib.import_module("ocl_inductor.eager")
        modes = {"eager": contextlib.nullcontext, "lazy": torch.ocl.lazy}
        if not storages_take_memory():
            line("failed", of="lazy", case="lazy", message="this PyTorch has no lazy mode on ocl")
            del modes["lazy"]
        there, wait = place.resident(), place.wait
    else:
        modes, there, wait = {"cuda": contextlib.nullcontext}, "cuda", torch.cuda.synchronize
    rounds: list[Callable[[str], None]] = [
        *(partial(loop, size, there, wait) for size in (SIZES[:1] if place.small else SIZES)),
        *(partial(training, case, there, wait, place) for case in NETWORKS),
    ]
    for one_round in rounds:
        for mode, context in modes.items():
            with context():
                guarded("lazy", one_round, mode)


if __name__ == "__main__":
    main()
