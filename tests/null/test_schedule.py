"""Fused groups compute what the loops they came from compute, and slots are shared safely.

Programs are lowered and scheduled for an imaginary device; the interpreter of loop IR then runs
each group's members in the group's own coordinates. No OpenCL is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from evaluate import make_device, run_loop
from planned import planned_memory
from torch.fx.experimental.proxy_tensor import make_fx

from ocl_inductor.capture.decompositions.table import decomposition_table
from ocl_inductor.ir.nodes import Graph, Loop
from ocl_inductor.lowering.interpret import lower_graph
from ocl_inductor.memory.planner import MemoryPlan
from ocl_inductor.passes import run_passes
from ocl_inductor.pipeline.verify import verify_graph, verify_schedule
from ocl_inductor.schedule.fuse import schedule_graph
from ocl_inductor.schedule.groups import LoopGroup, Schedule
from ocl_inductor.settings import Settings


def plan(
    fn: Callable[..., Any], *inputs: torch.Tensor, static: frozenset[int] = frozenset()
) -> tuple[Graph, Schedule, MemoryPlan]:
    def results(*args: torch.Tensor) -> Any:
        found = fn(*args)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    gm = make_fx(results, decomposition_table=decomposition_table(), tracing_mode="fake")(*inputs)
    graph = lower_graph(run_passes(gm), make_device(), Settings(), static_inputs=static)
    verify_graph(graph)
    schedule = schedule_graph(graph, make_device(), int)
    verify_schedule(graph, schedule)
    return graph, schedule, planned_memory(graph, schedule, make_device())


def run(
    graph: Graph, schedule: Schedule, memory: MemoryPlan, inputs: tuple[torch.Tensor, ...]
) -> list[torch.Tensor]:
    """The results, with a buffer gone as soon as another one takes a part of its memory."""
    contents: dict[str, torch.Tensor] = {}
    for buffer, tensor in zip(graph.inputs, inputs, strict=True):
        extent = int(buffer.storage)  # type: ignore[union-attr]
        contents[buffer.name] = tensor.as_strided((extent,), (1,)).clone()  # type: ignore[union-attr]
    for name, tensor in graph.constants:
        contents[name] = tensor.flatten().clone()
    for group in schedule.groups:
        assert isinstance(group, LoopGroup)
        for m in group.members:
            inner = () if m.row and m.kind == "pointwise" else group.inner
            ranges, swept = (group.outer, inner)
            if m.kind == "pointwise":
                ranges, swept = group.outer + inner, ()
            loop = Loop(
                m.buffer, m.kind, ranges, swept, m.body, m.store, m.how, m.store_indirect, m.base
            )
            run_loop(loop, contents)
        for m in group.members:
            name = m.buffer.name
            if name not in group.stored:
                del contents[name]  # lived in registers only
                continue
            if name in memory.slot_of:
                gone = [n for n in contents if n != name and overlap(memory, n, name)]
                for n in gone:
                    del contents[n]
    results = []
    for o in graph.outputs:
        size, stride = [int(s) for s in o.size], [int(s) for s in o.stride]
        results.append(contents[o.name].as_strided(size, stride, int(o.offset)))
    return results


def overlap(memory: MemoryPlan, a: str, b: str) -> bool:
    """Whether two buffers share bytes of scratch memory."""
    if a not in memory.slot_of or b not in memory.slot_of:
        return False
    x, y = memory.slots[memory.slot_of[a]], memory.slots[memory.slot_of[b]]
    apart = x.offset + x.nbytes <= y.offset or y.offset + y.nbytes <= x.offset
    return x.arena == y.arena and not apart


def _by_parts(x: Any) -> Any:
    y = torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3)
    z = torch.slice_scatter(y, y[::2] + 1, 0, 0, None, 2)
    return z, z.sum(0), torch.select_scatter(y, x[0], 0, 3).exp()


def _diamond(x: Any, y: Any) -> Any:
    a = x * 2
    s = a.sum(0)
    b = a + s
    t = b.sum(1, keepdim=True)
    return b / t, (y * s).softmax(-1), a - t


def _both_ways(x: Any) -> Any:
    return (x - x.mean(0)) / x.std(0), (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def _many(x: Any) -> Any:
    return [f(x * k) for k in (1, 2, 3) for f in (torch.exp, torch.sin, torch.relu)]


def _views(x: Any) -> Any:
    y = (x + 1).view(4, 3, 10).permute(2, 0, 1)
    z = y.reshape(10, 12) * 2
    return z.sum(0), (z + 1).t().reshape(3, 40).softmax(-1), y.flip(0)[:, 1:] + 3


def _indices(x: Any, i: Any) -> Any:
    y = x.softmax(-1)
    return y[i] * 2 + y[i.flip(0)], x.index_add(0, i, y[: i.shape[0]]), (x[i] + 1).sum(-1)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "chain": (lambda x: (x * 2 + 1).relu().sigmoid().tanh(), ((12, 10),)),
    "softmax": (lambda x: x.softmax(-1), ((12, 10),)),
    "softmax of columns": (lambda x: (x.log_softmax(0) * 2).exp(), ((12, 10),)),
    "layer norm": (lambda x, w: F.layer_norm(x + 1, (10,), w).relu(), ((12, 10), (10,))),
    "group norm": (lambda x, w: F.group_norm(x, 2, w), ((3, 4, 5), (4,))),
    "reductions": (lambda x: (x.sum(0), x.amax(1), x.mean(), x.argmax(1)), ((12, 10),)),
    "both ways": (_both_ways, ((12, 10),)),
    "diamond": (_diamond, ((12, 10), (12, 10))),
    "broadcasts": (lambda x, y: ((x * y).sum(1), x + y, (x - y).amax((0, 2))), ((5, 1, 7), (6, 1))),
    "views": (_views, ((12, 10),)),
    "by parts": (_by_parts, ((12, 10),)),
    "joins": (lambda x, y: (torch.cat([x.exp(), y, x]) + 1).sum(0), ((12, 10), (3, 10))),
    "pads": (lambda x: F.pad(x.relu(), (1, 2)).softmax(-1) + 1, ((12, 10),)),
    "scans": (lambda x: (x.cumsum(0) + 1).cumsum(1).relu(), ((12, 10),)),
    "many": (_many, ((12, 10),)),
    "pool": (lambda x: F.max_pool2d(x.relu(), 3, 2, 1).mean((2, 3)), ((2, 3, 9, 7),)),
    "no elements": (lambda x, y: (torch.cat([x, y]) * 2, x.sum(1)), ((0, 10), (3, 10))),
    "one element": (lambda x: (x.exp().sum(), x.softmax(0)), ((1,),)),
    "no dimensions": (lambda x, y: (x * y).sum(0) + x, ((), (7,))),
}


def _check(fn: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Schedule:
    graph, schedule, memory = plan(fn, *inputs)
    found = run(graph, schedule, memory, inputs)
    expected = fn(*inputs)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    for a, e in zip(found, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-5)
    return schedule


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_compute_the_program(name: str) -> None:
    fn, sizes = PROGRAMS[name]
    _check(fn, tuple(torch.randn(s) for s in sizes))


@pytest.mark.parametrize("name", ["both ways", "views", "diamond", "reductions", "softmax"])
@pytest.mark.parametrize("layout", ["transposed", "steps", "expanded"])
def test_layouts(name: str, layout: str) -> None:
    fn, sizes = PROGRAMS[name]
    inputs = []
    for m, n in sizes:
        if layout == "transposed":
            inputs.append(torch.randn(n, m).t())
        elif layout == "steps":
            inputs.append(torch.randn(2 * m, 3 * n)[::2, ::3])
        else:
            inputs.append(torch.randn(m, 1).expand(m, n))
    if name == "views" and layout != "transposed":
        pytest.skip("view() needs one run of memory")
    if layout == "expanded" and name == "both ways":
        pytest.skip("rows without variance")
    if name == "views":
        fn = lambda x: _views(x.contiguous())  # noqa: E731
    _check(fn, tuple(inputs))


def test_indices() -> None:
    _check(_indices, (torch.randn(12, 10), torch.randint(0, 12, (7,))))


def test_no_group_needs_its_own_result() -> None:
    """``a`` cannot join the kernel of ``b``: the reduction between them needs all of ``a``."""

    def fn(x: Any) -> Any:
        a = x.exp()
        total = a.sum(0)
        return a * total.sum()

    schedule = _check(fn, (torch.randn(12, 10),))
    assert len(schedule.groups) > 1
    assert all(len(r.reason) > 5 for r in schedule.refusals)


def test_dead_loops_are_dropped() -> None:
    def fn(x: Any) -> Any:
        x.softmax(-1)
        x.cumsum(0).sum(1)
        return x + 1

    schedule = _check(fn, (torch.randn(12, 10),))
    assert len(schedule.groups) == 1
    (group,) = schedule.groups
    assert len(group.writes()) == 1


def test_long_chains_reuse_memory() -> None:
    def fn(x: Any) -> Any:
        for _ in range(6):
            x = x.cumsum(0).cumsum(1) * 0.1
        return x

    inputs = (torch.randn(12, 10),)
    graph, schedule, memory = plan(fn, *inputs)
    assert memory.peak_bytes <= 2 * 512 < memory.unplanned_bytes
    torch.testing.assert_close(run(graph, schedule, memory, inputs)[0], fn(*inputs))


def test_what_parameters_give_is_computed_once() -> None:
    def fn(x: Any, w: Any) -> Any:
        return x * w.softmax(0).cumsum(0)

    _, schedule, memory = plan(fn, torch.randn(12, 10), torch.randn(10), static=frozenset({1}))
    assert memory.hoisted
    assert memory.kept
    groups = list(enumerate(schedule.groups))
    hoisted = {b.name for n, g in groups if n in memory.hoisted for b in g.writes()}
    read = {name for n, g in groups if n not in memory.hoisted for name in g.reads()}
    assert set(memory.kept) == hoisted & read
    # What only leads to what is kept is scratch, for as long as it is read.
    assert hoisted - read
    assert set(memory.slot_of) == hoisted - read
