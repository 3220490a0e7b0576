"""The memory plan: the order of kernels, results written over inputs, what is never shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from evaluate import make_device
from planned import allocations_of, planned_memory
from test_schedule import plan, run

from ocl_inductor.memory.liveness import find_lifetimes
from ocl_inductor.memory.order import lower_peak
from ocl_inductor.pipeline.verify import verify_memory, verify_schedule

W = torch.randn(20, 20)


def _branches(x: Any) -> Any:
    """In graph order all branches are alive at the end of the first loop."""
    wide = [(x * k).cumsum(0).cumsum(1) for k in range(1, 6)]
    return sum(w.flip(0).cumsum(0).sum(1) for w in wide)


def _tree(x: Any) -> Any:
    parts = [x.cumsum(0).cumsum(1) * k for k in range(8)]
    while len(parts) > 1:
        parts = [(a.flip(0) + b).cumsum(1) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def _updates(x: Any) -> Any:
    """``y`` is read by a kernel of its own before and after parts of a copy are replaced."""
    y = x.cumsum(0)
    z = torch.slice_scatter(y, y[2:4].cumsum(1), 0, 1, 3)
    z = torch.slice_scatter(z, z[::2] + 1, 0, 0, None, 2)
    return z.cumsum(1), y.flip(0).cumsum(0)


@pytest.mark.parametrize("fn", [_branches, _tree, _updates])
def test_another_order_gives_the_same(fn: Callable[..., Any]) -> None:
    inputs = (torch.randn(20, 20),)
    graph, schedule, before = plan(fn, *inputs)
    ordered = lower_peak(schedule, allocations_of(graph, schedule), int)
    verify_schedule(graph, ordered)
    memory = planned_memory(graph, ordered, make_device())
    assert memory.peak_bytes <= before.peak_bytes
    assert set(ordered.groups) == set(schedule.groups)
    expected = fn(*inputs)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for a, e in zip(run(graph, ordered, memory, inputs), wanted, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


def test_the_order_lowers_the_peak() -> None:
    graph, schedule, before = plan(_branches, torch.randn(20, 20))
    ordered = lower_peak(schedule, allocations_of(graph, schedule), int)
    memory = planned_memory(graph, ordered, make_device())
    assert memory.peak_bytes < 0.7 * before.peak_bytes
    assert memory.peak_bytes == memory.lower_bound_bytes


def test_a_pointwise_kernel_writes_over_its_dying_input() -> None:
    def fn(x: Any, w: Any) -> Any:
        return x.cumsum(0).exp() @ w

    _, _, memory = plan(fn, torch.randn(20, 20), W, static=frozenset({1}))
    ((result, source),) = memory.in_place.items()
    assert memory.slot_of[result] == memory.slot_of[source]
    assert memory.peak_bytes == memory.lower_bound_bytes < memory.unplanned_bytes


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: (lambda y: (y + y.flip(0)) @ w)(x.cumsum(0)),  # read elsewhere too
        lambda x, w: x.cumsum(0).flip(1).exp() @ w,  # read at another place
        lambda x, w: (lambda y: (y.exp() @ w, y.flip(0).cumsum(0)))(x.cumsum(0)),  # still needed
        lambda x, w: x.cumsum(0).double().exp() @ w.double(),  # another size of element
        lambda x, w: x.cumsum(0)[:, :10].exp() @ w[:10],  # a part of it
    ],
)
def test_others_do_not(fn: Callable[..., Any]) -> None:
    _, _, memory = plan(fn, torch.randn(20, 20), W, static=frozenset({1}))
    assert not memory.in_place


def test_results_and_parameters_have_memory_of_their_own() -> None:
    def fn(x: Any, w: Any) -> Any:
        y = x.cumsum(0)
        return y, (y.flip(0).cumsum(1) * w.cumsum(0)).flip(1).cumsum(0)

    graph, schedule, memory = plan(fn, torch.randn(20, 20), W, static=frozenset({1}))
    allocations = allocations_of(graph, schedule)
    outputs = {o.name for o in graph.outputs}
    assert memory.kept and not memory.kept & set(memory.slot_of)
    assert not {allocations.root(o) for o in outputs} & set(memory.slot_of)


def test_verification_finds_an_overlap() -> None:
    import dataclasses

    from ocl_inductor.errors import VerifyError

    graph, schedule, memory = plan(_tree, torch.randn(20, 20))
    slots = tuple(dataclasses.replace(s, offset=0) for s in memory.slots)
    live = find_lifetimes(schedule, allocations_of(graph, schedule))
    with pytest.raises(VerifyError, match="still needed"):
        verify_memory(live, dataclasses.replace(memory, slots=slots))
