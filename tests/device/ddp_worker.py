"""DistributedDataParallel with gloo: each of two processes trains on its half of a batch.

    torchrun --nproc-per-node 2 tests/device/ddp_worker.py intel

The first process compares with eager training on the whole batch and prints what it found. Small
buckets make DDPOptimizer cut the model into several graphs, between which gradients are sent.
"""

from __future__ import annotations

import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel

STEPS = 3


class Model(nn.Module):
    """A class of its own: Dynamo enters no frame of a module that comes with PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers: list[nn.Module] = [nn.Linear(16, 512), nn.GELU()]
        for _ in range(3):
            layers += [nn.Linear(512, 512), nn.Tanh()]
        self.layers = nn.Sequential(*layers, nn.Linear(512, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def train(forward: nn.Module, parameters: list[nn.Parameter], part: slice) -> list[float]:
    optimiser = torch.optim.SGD(parameters, 0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(12, 16, generator=generator)[part]
        y = torch.randint(0, 4, (12,), generator=generator)[part]
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def main(device: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    local = Model()
    whole = copy.deepcopy(local)
    parallel = DistributedDataParallel(local, bucket_cap_mb=1)
    compiled = torch.compile(parallel, backend="opencl", options={"device": device})
    losses = torch.tensor(train(compiled, list(local.parameters()), slice(6 * rank, 6 * rank + 6)))
    dist.all_reduce(losses)
    expected = torch.tensor(train(whole, list(whole.parameters()), slice(0, 12)))
    torch.testing.assert_close(losses / 2, expected, rtol=1e-4, atol=1e-5)
    for a, e in zip(local.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)
    if rank == 0:
        table = counters["opencl"]
        print(f"graphs {table['graphs']}, fallbacks {table['fallbacks']}")
        print("losses", *(f"{x:.4f}" for x in (losses / 2).tolist()), "as in eager")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
