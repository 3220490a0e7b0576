"""Small kernels of one form side by side: what may move, what may not, and that results stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from evaluate import make_device
from planned import allocations_of, planned_memory
from test_schedule import plan, run

from ocl_inductor.codegen.launches.combo_kernel import even_pieces
from ocl_inductor.codegen.plan_builder import build_plan
from ocl_inductor.memory.batches import MIN_BATCH, batch_launches
from ocl_inductor.pipeline.verify import verify_plan, verify_schedule
from ocl_inductor.plan.plan import Launch
from ocl_inductor.schedule.groups import Group, Schedule


def _updates(*tensors: Any) -> Any:
    """As an optimiser's step: a number of its own and an update for each parameter."""
    results = []
    for p, g in zip(tensors[::2], tensors[1::2], strict=True):
        count = g.cumsum(0)[-1] + 1
        results += [count, p - g.flip(0) * torch.pow(0.9, count)]
    return tuple(results)


def _chains(*tensors: Any) -> Any:
    """Equal kernels that need each other, in several chains: only across chains may they join."""
    results = []
    for x in tensors:
        for _ in range(3):
            x = x.cumsum(0).flip(0)
        results.append(x)
    return tuple(results)


def _replaced(*tensors: Any) -> Any:
    """What is read before and after a part of it was replaced in place."""
    results = []
    for x in tensors:
        y = x.cumsum(0)
        before = y.flip(0) * 2
        results += [before, torch.slice_scatter(y, y[2:4].cumsum(1), 0, 1, 3)]
    return tuple(results)


def _shapes(count: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(5 + k // 2 % 2, 7) for k in range(count))


@pytest.mark.parametrize("fn", [_updates, _chains, _replaced])
def test_results_stay(fn: Callable[..., Any]) -> None:
    inputs = _shapes(12)
    graph, schedule, _ = plan(fn, *inputs)
    batched = batch_launches(schedule, allocations_of(graph, schedule), int)
    verify_schedule(graph, batched)
    memory = planned_memory(graph, batched, make_device())
    assert set(batched.groups) == set(schedule.groups)
    for a, e in zip(run(graph, batched, memory, inputs), fn(*inputs), strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)
    # At the same time as well: the other way round inside each batch.
    groups: list[Group] = list(batched.groups)
    for b in batched.batches:
        groups[b.start : b.stop] = reversed(groups[b.start : b.stop])
    turned = dataclasses.replace(batched, groups=tuple(groups))
    verify_schedule(graph, turned)
    for a, e in zip(run(graph, turned, memory, inputs), fn(*inputs), strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


def test_an_optimiser_needs_few_launches() -> None:
    graph, schedule, _ = plan(_updates, *_shapes(80))
    assert len(schedule.groups) >= 80
    batched = batch_launches(schedule, allocations_of(graph, schedule), int)
    device = make_device()
    memory = planned_memory(graph, batched, device)
    made = build_plan(graph, batched, memory, device)
    verify_plan(made)
    assert len(made.steps) <= 6
    assert sorted(n for part in made.parts for n in part) == list(range(len(batched.groups)))
    fits = device.max_parameter_bytes
    for step in made.steps:
        assert isinstance(step, Launch)
        assert 8 * len(step.buffers) + 4 * len(step.literals) <= fits
    # Launches of one form share a program, although the last of them may have fewer parts.
    assert len(made.kernels) <= len(made.steps)


def test_large_intermediate_results_and_few_kernels_stay_where_they_are() -> None:
    def fn(*tensors: Any) -> Any:
        return tuple(x.cumsum(0).flip(0).cumsum(1) for x in tensors)

    def batched(count: int, rows: int) -> tuple[Schedule, Schedule]:
        graph, schedule, _ = plan(fn, *(torch.randn(rows, 4) for _ in range(count)))
        return schedule, batch_launches(schedule, allocations_of(graph, schedule), int)

    before, after = batched(6, 2)
    assert before.groups != after.groups and after.batches
    for count, rows in ((6, 5000), (MIN_BATCH - 1, 2)):
        before, after = batched(count, rows)
        assert before == after, (count, rows)


def test_pieces_are_about_equal() -> None:
    assert [len(p) for p in even_pieces(range(61), 14)] == [13, 13, 13, 13, 9]
    assert [len(p) for p in even_pieces(range(4), 64)] == [4]
