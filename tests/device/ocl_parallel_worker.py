"""Training on ``ocl`` in two processes, each way to share the work, eagerly and compiled.

    OCL_INDUCTOR_DEVICE=intel torchrun --nproc-per-node 2 tests/device/ocl_parallel_worker.py

The losses are those of one process on the whole batch, in float64; batches are drawn anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from parallel_worker import BATCH, Model, in_sequences, in_tensors, replicated, sharded, train
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from two_processes import PATIENCE

import ocl_inductor.eager  # noqa: F401 - the device
from ocl_inductor.errors import FreedStorageError
from ocl_inductor.support.torch_versions import storages_take_memory

Share = Callable[[nn.Module, DeviceMesh], nn.Module]


def in_small_buckets(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Gradients are views of buckets, of which several are in flight, sent by a hook in Python."""
    found = DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=0.002)
    found.register_comm_hook(None, allreduce_hook)
    return found


def check_way(
    expected: torch.Tensor, share: Share, mesh: DeviceMesh, first: int, *, compiled: bool
) -> None:
    torch._dynamo.reset()
    counters.clear()
    model = share(Model().to("ocl"), mesh)
    forward = torch.compile(model, backend="opencl") if compiled else model
    if share in (in_tensors, in_sequences):
        losses = train(forward, slice(0, BATCH), "ocl", first)
    else:
        half = BATCH // 2 * dist.get_rank()
        losses = train(forward, slice(half, half + BATCH // 2), "ocl", first)
        dist.all_reduce(losses, dist.ReduceOp.AVG)
    print(share.__name__, "compiled" if compiled else "eager", losses.tolist(), flush=True)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-4, atol=1e-5)
    if compiled:
        table = counters["opencl"]
        print(f"graphs {table['graphs']}, fallbacks {table['fallbacks']}")


def check_freed_parameters(mesh: DeviceMesh) -> None:
    """Of a sharded model, between two uses: an error, and no numbers."""
    layer = fully_shard(nn.Linear(8, 8).to("ocl"), mesh=mesh)
    layer(torch.randn(3, 8, device="ocl")).sum().backward()
    layer.unshard()
    weight = layer.weight
    assert weight.cpu().shape == (8, 8)
    layer.reshard()
    try:
        weight.cpu()
    except FreedStorageError as error:
        assert "unshard()" in str(error)
    else:
        raise AssertionError("freed memory was read")


def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning)
    dist.init_process_group("gloo", timeout=PATIENCE)
    drawn = torch.tensor([torch.seed() % 10**6])
    dist.broadcast(drawn, 0)
    first = int(drawn)
    print("seed", first)
    mesh = init_device_mesh("ocl", (2,))
    expected = train(Model().double(), slice(0, BATCH), first=first).double()
    ways = [(replicated, False), (replicated, True), (in_small_buckets, False)]
    ways += [(in_tensors, False), (in_sequences, True)]
    if storages_take_memory():  # FSDP frees parameters: since PyTorch 2.13
        ways += [(sharded, False), (sharded, True)]
        check_freed_parameters(mesh)
    for share, compiled in ways:
        check_way(expected, share, mesh, first, compiled=compiled)
    print("all losses agree")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
