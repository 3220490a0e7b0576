"""Two processes train one network: each on half of a batch (DDP), then each with half the weights.

    torchrun --nproc-per-node 2 examples/distributed.py

The collectives run on the host, between kernels; both ways give the losses of one process alone.
"""

from __future__ import annotations

import os

from common import check_counters, console, graphs, options, step, summary
from data import digits

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

BATCH = 64


class Model(nn.Module):
    """Of a class of our own: Dynamo does not enter a bare nn.Sequential inside DDP."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(64, 256), nn.Linear(256, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x.flatten(1)).relu()).relu())


def in_tensors(model: nn.Module) -> nn.Module:
    """Columns of the first weight and rows of the second in each process."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
    return parallelize_module(model, mesh, plan)


def train(model: nn.Module, part: slice, steps: int) -> tuple[Tensor, int]:
    """The losses on ``part`` of each batch, and how many graphs there were after two steps."""
    images, labels = digits()
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses, settled = [], 0
    for number in range(steps):
        rows = slice(number * BATCH, (number + 1) * BATCH)
        loss = nn.functional.cross_entropy(model(images[rows][part]), labels[rows][part])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
        settled = graphs() if number == 1 else settled
    return torch.stack(losses), settled


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(20, "steps"))
    if "RANK" not in os.environ:
        raise SystemExit("start it with: torchrun --nproc-per-node 2 examples/distributed.py")
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    console.quiet = rank > 0
    share = BATCH // count
    alone, _ = train(Model(), slice(0, BATCH), chosen.steps)
    ways = {
        "data parallel": (DistributedDataParallel, slice(rank * share, (rank + 1) * share)),
        "tensor parallel": (in_tensors, slice(0, BATCH)),
    }
    for name, (spread, part) in ways.items():
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model = torch.compile(spread(Model()), backend="opencl")
        with step(f"{name}, {chosen.steps} steps in {count} processes"):
            losses, settled = train(model, part, chosen.steps)
        dist.all_reduce(losses)
        losses /= count
        shown = ", ".join(f"{loss:.4f}" for loss in losses[:: chosen.steps // 4].tolist())
        console.print(f"  losses {shown}; {summary()}")
        if chosen.check:
            check_counters(settled)
            torch.testing.assert_close(losses, alone, rtol=1e-4, atol=1e-5)
    shown = ", ".join(f"{loss:.4f}" for loss in alone[:: chosen.steps // 4].tolist())
    console.print(f"one process in eager\n  losses {shown}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
