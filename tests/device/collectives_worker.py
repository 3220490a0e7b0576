"""Collectives inside compiled graphs, in each of two processes, against the same code in eager.

    torchrun --nproc-per-node 2 tests/device/collectives_worker.py intel

The second process is late, so that a result which is read at once is not there yet. Eager waits
wherever something reads a result; functions that start communication themselves (``ops``) wait
right away there.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch import Tensor
from two_processes import PATIENCE

ROWS, COLUMNS = 4, 20_000
CALLS = 2
#: Collectives that gloo works on at a time; the next one has to wait.
GLOO_THREADS = 2
#: Seconds by which the second process is late.
LATE = 0.05
#: The name of a group that is this process alone.
ALONE: list[str] = []
ops = torch.ops._c10d_functional
Function = Callable[[Tensor], Any]

#: Before PyTorch 2.13 some have other names, and not all of the functions here are captured.
HAS_ALL = hasattr(fc, "all_gather_single")
gather = getattr(fc, "all_gather_single", None) or fc.all_gather_tensor
scatter = getattr(fc, "reduce_scatter_single", None) or fc.reduce_scatter_tensor
gather_into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
scatter_into = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def started(result: Tensor) -> Tensor:
    """What an operator of ``ops`` returned: compiled code goes on, eager waits."""
    return result if torch.compiler.is_compiling() else ops.wait_tensor(result)


def all_reduce(x: Tensor) -> Any:
    return fc.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def of_another_order(x: Tensor) -> Any:
    return fc.all_reduce(x.t() * 2, "max", dist.group.WORLD) + 1


def all_gather(x: Tensor) -> Any:
    group = dist.group.WORLD
    return gather(x * 2, 0, group) + 1, gather(x + 1, 1, group).sin()


def reduce_scatter(x: Tensor) -> Any:
    group = dist.group.WORLD
    rows = scatter(x * 2, "sum", 0, group) + 1
    return rows, scatter(x.cos(), "sum", 1, group).sin()


def all_to_all(x: Tensor) -> Any:
    taken = [3 - 2 * dist.get_rank()] * 2
    return fc.all_to_all_single(x * 2, taken, [3, 1], dist.group.WORLD) + 1


def broadcast(x: Tensor) -> Any:
    return fc.broadcast(x * 2, 1, dist.group.WORLD) + 1


def several_at_once(x: Tensor) -> Any:
    group = dist.group.WORLD
    both = [x * 2, x.sin()]
    reduced = fc.all_reduce_coalesced(both, "sum", group)
    gathered = fc.all_gather_into_tensor_coalesced(both, group)
    (_, part) = fc.reduce_scatter_tensor_coalesced(both, "sum", [0, 0], group)
    return [t + 1 for t in (*reduced, *gathered, part)]


def into_given_memory(x: Tensor) -> Any:
    y, whole, part = x * 2, x.new_empty(2 * ROWS, COLUMNS), x.new_empty(ROWS // 2, COLUMNS)
    dist.all_reduce(y)
    gather_into(whole, x + 1)
    scatter_into(part, x.sin())
    return y + 1, whole * 2, part.cos()


def into_the_input(x: Tensor) -> Any:
    dist.all_reduce(x)
    return x + 1


def one_after_another(x: Tensor) -> Any:
    group = dist.group.WORLD
    gathered = gather(fc.all_reduce(x * 2, "sum", group), 0, group)
    return scatter(gathered + 1, "sum", 0, group).sin()


def through_this_process(x: Tensor) -> Tensor:
    """``x``, after what was started before, for which it does not wait."""
    return ops.wait_tensor(ops.all_reduce(x, "sum", ALONE[0]))


def while_scratch_memory_is_used(x: Tensor) -> Any:
    """What the collective has yet to read lies where later kernels would write."""
    busy = [started(ops.all_reduce(x, "sum", "0")) for _ in range(GLOO_THREADS)]
    whole = started(ops.all_gather_into_tensor(x * 2, 2, "0"))
    y = through_this_process(x)
    for _ in range(3):
        y = y.flip(1).sin() + y.mean(1, keepdim=True)
    return y, *(ops.wait_tensor(t) + 1 for t in (*busy, whole))


def while_the_input_is_written(x: Tensor) -> Any:
    busy = [started(ops.all_reduce(x, "sum", "0")) for _ in range(GLOO_THREADS)]
    whole = started(ops.all_gather_into_tensor(x, 2, "0"))
    x.mul_(through_this_process(x))
    return tuple(ops.wait_tensor(t) + 1 for t in (*busy, whole))


def seen_through_a_view(x: Tensor) -> Any:
    return ops.wait_tensor(started(ops.all_reduce(x * 2, "sum", "0")).view(-1, 2)) + 1


def waited_for_without_its_result(x: Tensor) -> Any:
    whole = x.new_empty(2 * ROWS, COLUMNS)
    ops.wait_tensor(ops.all_gather_into_tensor_out(x * 2, 2, "0", out=whole))
    return whole + 1


def never_started(x: Tensor) -> Any:
    return ops.wait_tensor(x * 2) + 1


def sent_and_received(x: Tensor) -> Any:
    other, got = 1 - dist.get_rank(), torch.empty_like(x)
    if other == 1:
        dist.isend(x * 2, other).wait()
        dist.irecv(got, other).wait()
    else:
        dist.irecv(got, other).wait()
        dist.isend(x * 2, other).wait()
    return got + 1


GIVEN: tuple[Function, ...] = (
    all_reduce,
    of_another_order,
    all_gather,
    reduce_scatter,
    all_to_all,
    broadcast,
    several_at_once,
    into_given_memory,
    into_the_input,
    one_after_another,
    while_scratch_memory_is_used,
    while_the_input_is_written,
    seen_through_a_view,
    waited_for_without_its_result,
    never_started,
    sent_and_received,
)


def is_captured(function: Function) -> bool:
    """Whether this PyTorch compiles it, with the backend that adds nothing of its own."""
    torch._dynamo.reset()
    try:
        torch.compile(function, backend="aot_eager", fullgraph=True)(random(0))
    except Exception as error:
        print(f"PyTorch does not capture {function.__name__}: {str(error)[:200]}")
        return False
    return True


def check_functions(device: str) -> None:
    for function in GIVEN:
        if not HAS_ALL and not is_captured(function):
            continue
        torch._dynamo.reset()
        ours = compiled(function, device, fullgraph=True)
        for call in range(CALLS):
            x = random(call)
            given = x.clone()
            come_late()
            got = ours(given)
            agree(f"{function.__name__}, call {call}", got, function(x))
            agree(f"input of {function.__name__}, call {call}", given, x)


def check_graphs_apart(device: str) -> None:
    """What is started outside a graph and waited for in it, and the other way round."""

    def twice(y: Tensor) -> Tensor:
        return y.view(-1) * 2 + 1

    def waited(y: Tensor) -> Tensor:
        ops.wait_tensor(y)
        y.add_(1)
        return y * y

    def begun(y: Tensor) -> Tensor:
        return ops.all_reduce(y * 2, "sum", "0")

    torch._dynamo.reset()
    ours = [compiled(f, device, fullgraph=True) for f in (twice, waited, begun)]
    for call in range(CALLS):
        x = random(call)
        total = x.clone()
        come_late()
        dist.all_reduce(total)
        agree("started before", ours[0](fc.all_reduce(x, "sum", dist.group.WORLD)), twice(total))
        with fc.allow_inflight_collective_as_graph_input_ctx():
            y = x.clone()
            dist.all_reduce(y, async_op=True)
            agree("written by others", ours[1](y), (total + 1).square())
            agree("written by others and here", y, total + 1)
        agree("waited for afterwards", ops.wait_tensor(ours[2](x)), total * 2)


def check_gradients(device: str) -> None:
    def cosine(x: Tensor) -> Tensor:
        return fc.all_reduce(x.sin(), "sum", dist.group.WORLD).cos().sum()

    torch._dynamo.reset()
    ours = compiled(cosine, device, fullgraph=True)
    for call in range(CALLS):
        x = random(call).requires_grad_()
        want, got = (torch.autograd.grad(f(x), x) for f in (cosine, ours))
        agree("gradient", got, want)


def come_late() -> None:
    """No collective of the first process is done before it goes on."""
    time.sleep(LATE * dist.get_rank())


def compiled(function: Any, device: str, **options: Any) -> Any:
    return torch.compile(
        function, backend="opencl", options={"device": device, "fallback": "error"}, **options
    )


def random(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(10 * seed + dist.get_rank())
    return torch.randn(ROWS, COLUMNS, generator=generator)


def agree(name: str, got: Any, want: Any) -> None:
    def say(message: str) -> str:
        return f"process {dist.get_rank()}, {name}: {message}"

    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, check_stride=True, msg=say)


def main(device: str) -> None:
    warnings.filterwarnings("ignore", category=FutureWarning)
    if hasattr(torch._dynamo.config, "enable_p2p_compilation"):  # not before PyTorch 2.12
        torch._dynamo.config.enable_p2p_compilation = True
    dist.init_process_group("gloo", timeout=PATIENCE)
    groups = [dist.new_group([rank]) for rank in range(2)]
    ALONE.append(groups[dist.get_rank()].group_name)
    check_functions(device)
    check_graphs_apart(device)
    check_gradients(device)
    print("all functions agree")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
