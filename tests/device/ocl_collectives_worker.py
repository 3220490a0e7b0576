"""Collectives on ``ocl`` tensors in each of two processes, against what their definition gives.

    OCL_INDUCTOR_DEVICE=intel torchrun --nproc-per-node 2 tests/device/ocl_collectives_worker.py

Each process knows the numbers of both, which are drawn anew in each run. The second one is late, so
that a result which is read too soon is not there yet.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import collectives_worker as graphs
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from two_processes import PATIENCE

import ocl_inductor.eager  # noqa: F401 - the device
from ocl_inductor.eager.distributed.collectives import kernels
from ocl_inductor.eager.distributed.works import ResidentWork
from ocl_inductor.errors import MixedCollectiveError, NoHostGroupError
from ocl_inductor.resident import tensors
from ocl_inductor.resident.places import place

LATE = 0.1
ROWS, COLUMNS = 6, 4
#: Of this run.
SEED = [0]
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
Op = dist.ReduceOp
SUMS: dict[Any, Callable[[Tensor], Tensor]] = {
    Op.SUM: lambda both: both.sum(0),
    Op.AVG: lambda both: both.sum(0) / 2,
    Op.PRODUCT: lambda both: both.prod(0),
    Op.MIN: lambda both: both.amin(0),
    Op.MAX: lambda both: both.amax(0),
}
BITS: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {
    Op.BAND: torch.bitwise_and,
    Op.BOR: torch.bitwise_or,
    Op.BXOR: torch.bitwise_xor,
}


def drawn(rank: int, *shape: int, dtype: torch.dtype = torch.float32, of: int = 0) -> Tensor:
    """The numbers of a process, on the CPU; ``of`` which call."""
    generator = torch.Generator().manual_seed(SEED[0] + 2 * of + rank)
    return (torch.randn(shape, generator=generator) * 8).to(dtype)


def both(*shape: int, **options: Any) -> Tensor:
    return torch.stack([drawn(rank, *shape, **options) for rank in range(2)])


def mine(*shape: int, **options: Any) -> Tensor:
    return drawn(dist.get_rank(), *shape, **options).to("ocl")


def blank(*shape: int) -> Tensor:
    return torch.full(shape, float("nan"), device="ocl")


def equal(name: str, got: Tensor, want: Tensor) -> None:
    """The float64 numbers ``want``, rounded once."""
    assert got.device.type == "ocl", name
    rtol = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(got.dtype, 1e-6)
    torch.testing.assert_close(got.cpu().double(), want.double(), rtol=rtol, atol=0, msg=name)


def refused(error: type[Exception], words: str, function: Callable[[], object]) -> None:
    try:
        function()
    except error as found:
        assert words in str(found), found
    else:
        raise AssertionError(f"no {error.__name__}: {words}")


def check_reductions() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        whole = both(ROWS, COLUMNS, dtype=dtype)
        ops = SUMS if dtype in FLOATS else {**SUMS, **BITS}
        for op in ops:
            if op == Op.AVG and dtype not in FLOATS:
                continue
            x = mine(ROWS, COLUMNS, dtype=dtype)
            dist.all_reduce(x, op)
            if op in BITS:
                want = BITS[op](*whole)
            elif dtype in INTEGERS:
                want = SUMS[op](whole.long()).to(dtype)  # which wraps as theirs does
            else:
                want = SUMS[op](whole.double())
            equal(f"{op} of {dtype}", x, want)
    x = mine(COLUMNS)
    dist.reduce(x, 1)
    if dist.get_rank() == 1:
        equal("reduce", x, both(COLUMNS).double().sum(0))
    number = mine()
    dist.all_reduce(number)
    equal("a number", number, both().double().sum(0))
    dist.all_reduce(torch.empty(0, 3, device="ocl"))
    z = torch.complex(mine(5), mine(5, of=1))
    dist.all_reduce(z)
    equal("complex", torch.view_as_real(z)[:, 1], both(5, of=1).double().sum(0))


def check_layouts() -> None:
    """Gloo takes memory as it lies; here each element meets its own, and gaps are kept."""
    whole = both(ROWS, COLUMNS).double()
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "transposed": lambda x: x.t(),
        "transposed in one process": lambda x: x.t() if dist.get_rank() else x.t().contiguous(),
        "gaps": lambda x: x[:, ::2],
        "from within": lambda x: x[2:5],
        "turned twice": lambda x: x.view(2, 3, 4).permute(2, 0, 1),
    }
    for name, view in views.items():
        x = mine(ROWS, COLUMNS)
        part = view(x)
        dist.all_reduce(part)
        equal(name, part, view(whole.sum(0)))
        if part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            want = drawn(dist.get_rank(), ROWS, COLUMNS).double()
            view(want).copy_(view(whole.sum(0)))
            equal(f"around: {name}", x, want)
    into = blank(COLUMNS, 2 * ROWS).t()
    dist.all_gather_into_tensor(into, mine(COLUMNS, ROWS).t())
    equal("gathered", into, torch.cat(list(both(COLUMNS, ROWS).transpose(1, 2))))


def check_exchanges() -> None:
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    rows, late = both(ROWS, COLUMNS), both(ROWS, COLUMNS, of=1)
    x, y = mine(ROWS, COLUMNS), mine(ROWS, COLUMNS, of=1)
    z = x.clone()
    dist.broadcast(z, 1)
    equal("broadcast", z, rows[1])
    parts = [blank(ROWS, COLUMNS) for _ in range(2)]
    dist.all_gather(parts, x)
    equal("all_gather", torch.stack(parts), rows)
    into = blank(2 * ROWS, COLUMNS)
    into[rank * ROWS : (rank + 1) * ROWS] = x
    dist.all_gather_into_tensor(into, into[rank * ROWS : (rank + 1) * ROWS])
    equal("all_gather_into_tensor of a part of it", into, rows.view(-1, COLUMNS))
    half, third = blank(ROWS // 2, COLUMNS), blank(ROWS, COLUMNS)
    dist.reduce_scatter_tensor(half, x)
    equal("reduce_scatter_tensor", half, rows.double().sum(0).chunk(2)[rank])
    dist.reduce_scatter(third, [x, y], Op.MAX)
    equal("reduce_scatter", third, (rows, late)[rank].amax(0))
    dist.all_to_all(parts, [x, y])
    equal("all_to_all", torch.stack(parts), (rows, late)[rank])
    taken, given = [[4, 1], [2, 5]][rank], [[4, 2], [1, 5]][rank]
    got = blank(sum(taken), COLUMNS)
    dist.all_to_all_single(got, x[: sum(given)].contiguous(), taken, given)
    want = (rows[0][:4], rows[1][:1]) if rank == 0 else (rows[0][4:6], rows[1][1:6])
    equal("all_to_all_single", got, torch.cat(want))
    parts = [blank(ROWS, COLUMNS) for _ in range(2)]
    dist.gather(x, parts if rank == 0 else None)
    if rank == 0:
        equal("gather", torch.stack(parts), rows)
    dist.scatter(third, [x, y] if rank == 1 else None, src=1)
    equal("scatter", third, (rows, late)[rank][1])
    for turn in range(2):
        if turn == rank:
            dist.send(x, other)
        else:
            sender = dist.recv(third, None if turn else other)
            assert sender == other
            equal("recv", third, rows[other])
    fourth = blank(ROWS, COLUMNS)
    tasks = [dist.P2POp(dist.isend, y, other), dist.P2POp(dist.irecv, fourth, other)]
    for work in dist.batch_isend_irecv(tasks):
        work.wait()
    equal("batch_isend_irecv", fourth, late[other])
    dist.barrier()


def check_waiting() -> None:
    """A Work is over when its result is there, and says what went wrong."""
    rank = dist.get_rank()
    total = both(300_000).double().sum(0)
    waits: dict[str, Callable[[Any], object]] = {
        "wait": lambda work: work.wait(),
        "wait with a limit": lambda work: work.wait(timedelta(seconds=30)),
        "a future": lambda work: work.get_future().wait(),
        "asking": until_completed,
    }
    for name, wait in waits.items():
        x = mine(300_000)
        time.sleep(LATE * rank)
        work = dist.all_reduce(x, async_op=True)
        wait(work)
        equal(name, x, total)
        assert work.is_completed() and work.get_future().value()[0] is x
    halves, x = blank(150_000), mine(300_000)
    time.sleep(LATE * rank)
    work = dist.reduce_scatter_tensor(halves, x, async_op=True)
    assert work.get_future().wait()[0] is halves
    equal("a future that gloo has not", halves, total.chunk(2)[rank])
    if rank == 1:
        time.sleep(10 * LATE)
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:
        assert not work.is_completed()
        refused(RuntimeError, "imed out", lambda: work.wait(timedelta(seconds=LATE)))
    work.wait()
    equal("after a limit", x, total)
    work = dist.all_reduce(torch.ones(3, device="ocl", dtype=torch.int64), Op.AVG, async_op=True)
    refused(RuntimeError, "cast", work.wait)
    refused(RuntimeError, "cast", lambda: work.get_future().wait())


def until_completed(work: Any) -> None:
    end = time.monotonic() + PATIENCE.total_seconds()
    while not work.is_completed():
        assert time.monotonic() < end
        time.sleep(LATE / 20)


def check_queued_kernels() -> None:
    """What is sent is what kernels that were only enqueued have computed."""

    @torch.compile(backend="opencl", options={"fallback": "error"})
    def products(x: Tensor) -> Tensor:
        for _ in range(4):
            x = x @ x / 16
        return x

    x = mine(256, 256) / 8
    want = drawn(0, 256, 256).double() / 8, drawn(1, 256, 256).double() / 8
    for _ in range(4):
        want = tuple(y @ y / 16 for y in want)
    for _ in range(2):
        y = products(x)
        dist.all_reduce(y)
        scale = sum(want).abs().max()
        torch.testing.assert_close(
            y.cpu() / scale, sum(want) / scale, rtol=0, atol=1e-5, check_dtype=False
        )


def check_writes() -> None:
    """A weight that was packed for a product is packed again after it was received."""
    x = torch.randn(1, 256)
    weight = mine(256, 256)
    product = torch.compile(lambda a, w: a @ w, backend="opencl", options={"fallback": "error"})
    with torch.no_grad():
        for _ in range(3):
            dist.all_reduce(weight, Op.AVG)
            got = product(x.to("ocl"), weight)
            torch.testing.assert_close(got.cpu(), x @ weight.cpu(), rtol=1e-3, atol=1e-2)
            weight.add_(drawn(dist.get_rank(), 256, 256).to("ocl"))


def check_copies() -> None:
    """None where the host has the memory and a tensor is dense."""
    x, seen = mine(ROWS, COLUMNS), []
    to_host, from_host = tensors.to_host, tensors.from_host
    tensors.to_host = lambda t: (seen.append(t), to_host(t))[1]
    tensors.from_host = lambda t, source: (seen.append(t), from_host(t, source))[1]
    try:
        dist.all_reduce(x)
        dist.all_gather_into_tensor(blank(2 * ROWS, COLUMNS), x)
    finally:
        tensors.to_host, tensors.from_host = to_host, from_host
    assert len(seen) == (0 if tensors.in_place(place()) else 4)


def check_groups() -> None:
    total = both(ROWS).double().sum(0)
    for backend in ("gloo", "ocl", "cpu:gloo,ocl:ocl", "cpu:gloo,ocl:gloo", None):
        group = dist.new_group([0, 1], backend=backend)
        x = mine(ROWS)
        dist.all_reduce(x, group=group)
        equal(f"backend {backend}", x, total)
        host = x.cpu()
        dist.all_reduce(host, group=group)
        assert host.equal(x.cpu() * 2)
    told: list[Any] = [None, None]
    dist.all_gather_object(told, {"rank": dist.get_rank()})
    assert told == [{"rank": 0}, {"rank": 1}]
    alone = dist.new_group([0, 1], backend="ocl:gloo")
    x = mine(ROWS)
    refused(NoHostGroupError, "init_process_group()", lambda: dist.all_reduce(x, group=alone))
    parts = [torch.empty(ROWS), torch.empty(ROWS)]
    refused(MixedCollectiveError, "allgather_", lambda: dist.all_gather(parts, x))


def check_functional() -> None:
    """The functions of ``collectives_worker.py``, eagerly and compiled, against CPU tensors."""
    groups = [dist.new_group([rank]) for rank in range(2)]
    graphs.ALONE.append(groups[dist.get_rank()].group_name)
    some = (graphs.all_gather, graphs.into_given_memory, graphs.one_after_another)
    for function in graphs.GIVEN:
        x = mine(graphs.ROWS, graphs.COLUMNS).cpu()
        ways = {"eager": function}
        if function in some:
            torch._dynamo.reset()
            ways["compiled"] = torch.compile(
                function, backend="opencl", fullgraph=True, options={"fallback": "error"}
            )
        want = function(x.clone())
        for way, ours in ways.items():
            graphs.come_late()
            got = ours(x.to("ocl"))
            name = f"{function.__name__}, {way}"
            for y, right in zip(flat(got), flat(want), strict=True):
                torch.testing.assert_close(y.to("cpu"), right, rtol=1e-5, atol=1e-4, msg=name)


def flat(found: Any) -> list[Tensor]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def check_dtensors() -> None:
    mesh = init_device_mesh("ocl", (2,))
    left, right = both(8, 6, of=3), both(6, 10, of=4)  # the same in both processes
    a = distribute_tensor(left[0].to("ocl"), mesh, [Shard(0)])
    b = distribute_tensor(right[0].to("ocl"), mesh, [Shard(0)])
    product = (a.redistribute(mesh, [Shard(1)]) @ b).redistribute(mesh, [Replicate()])
    want = left[0].double() @ right[0].double()
    assert product.to_local().device.type == "ocl"
    got = product.to_local().cpu().double()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)
    assert a.full_tensor().cpu().equal(left[0])


def check_operators() -> None:
    """Every operator that PyTorch has for unknown devices is known, or says that it is not."""
    unknown = [n for n, f in kernels().items() if "refus" in f.__qualname__]
    print("unknown operators of c10d:", unknown)


def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning)
    dist.init_process_group(timeout=PATIENCE)
    seed = torch.tensor([torch.seed() % 10**6])
    dist.broadcast(seed, 0)
    SEED[0] = int(seed)
    print("seed", SEED[0])
    for check in (
        check_operators,
        check_reductions,
        check_layouts,
        check_exchanges,
        check_waiting,
        check_queued_kernels,
        check_writes,
        check_copies,
        check_groups,
        check_functional,
        check_dtensors,
    ):
        check()
        assert not ResidentWork._unfinished, check.__name__
        print(check.__name__, flush=True)
    print("all collectives agree")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
