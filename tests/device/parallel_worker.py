"""Training in two processes, each way to share the work: losses as in eager in one process.

torchrun --nproc-per-node 2 tests/device/parallel_worker.py intel
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from two_processes import PATIENCE

STEPS, BATCH = 3, 12


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 32)
        self.norm = nn.LayerNorm(32)
        self.third, self.last = nn.Linear(32, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.second(self.first(x).relu()))
        return self.last(self.third(x).tanh())


def in_tensors(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Columns of one weight and rows of the next in each process."""
    first, last = ColwiseParallel(), RowwiseParallel()
    shared = {"first": first, "second": last, "third": first, "last": last}
    return parallelize_module(model, mesh, shared)


def in_sequences(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """The same, and a part of the rows in each process in between."""
    shared = {
        "first": ColwiseParallel(),
        "second": RowwiseParallel(output_layouts=Shard(0)),
        "norm": SequenceParallel(sequence_dim=0),
        "third": ColwiseParallel(input_layouts=Shard(0)),
        "last": RowwiseParallel(),
    }
    return parallelize_module(model, mesh, shared)


def sharded(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """A half of each parameter in each process; a half of the batch."""
    for layer in (model.first, model.second, model.third, model):
        fully_shard(layer, mesh=mesh)
    return model


def replicated(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    return DistributedDataParallel(model)


def train(forward: nn.Module, part: slice, device: str = "cpu", first: int = 0) -> torch.Tensor:
    """The losses on ``part`` of each batch; ``first``: the seed of the first one."""
    # Several tensors at a time, a model may not have tensors of both kinds: of a mesh and others.
    optimiser = torch.optim.SGD(forward.parameters(), 0.1, momentum=0.9, foreach=False)
    dtype = next(forward.parameters()).dtype
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(first + step)
        x = torch.randn(BATCH, 16, generator=generator)[part].to(device, dtype)
        y = torch.randint(0, 4, (BATCH,), generator=generator)[part].to(device)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def main(device: str) -> None:
    dist.init_process_group("gloo", timeout=PATIENCE)
    mesh = init_device_mesh("cpu", (2,))
    expected = train(Model(), slice(0, BATCH))
    half = BATCH // 2 * dist.get_rank()
    for share in (in_tensors, in_sequences, sharded, replicated):
        torch._dynamo.reset()
        model = share(Model(), mesh)
        compiled = torch.compile(model, backend="opencl", options={"device": device})
        if share in (in_tensors, in_sequences):
            losses = train(compiled, slice(0, BATCH))
        else:
            losses = train(compiled, slice(half, half + BATCH // 2))
            dist.all_reduce(losses)
            losses /= 2
        print(share.__name__, losses.tolist(), expected.tolist())
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    table = counters["opencl"]
    print(f"graphs {table['graphs']}, fallbacks {table['fallbacks']}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
