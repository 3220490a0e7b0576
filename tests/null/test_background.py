"""What makes a first call short: threads beside Dynamo, and old objects that are left alone."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
import torch
from torch._dynamo import callback
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ocl_inductor.patches.process import garbage_collector
from ocl_inductor.support.background import make_in_background


def test_no_mode_of_this_thread_is_on_in_the_other() -> None:
    with FakeTensorMode():
        made = make_in_background(lambda: torch.empty(2)).result()
        assert isinstance(torch.empty(2), FakeTensor)
    assert not isinstance(made, FakeTensor)


def test_an_error_comes_from_result() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        make_in_background(fail).result()


def test_threads_wait_for_less_long_while_something_is_made() -> None:
    usual = sys.getswitchinterval()
    assert make_in_background(sys.getswitchinterval).result() < usual
    assert sys.getswitchinterval() == usual


@pytest.fixture
def seen() -> Iterator[list[int]]:
    """How many objects are left out of garbage collection while Dynamo compiles."""
    handler = callback.callback_handler
    before = list(handler.start_callbacks), list(handler.end_callbacks)
    found: list[int] = []

    def backend(gm: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        found.append(gc.get_freeze_count())
        return gm

    garbage_collector.leave_old_objects_alone()
    garbage_collector.leave_old_objects_alone()
    assert handler.start_callbacks.count(garbage_collector._frozen.start) == 1
    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    yield found
    handler.start_callbacks[:], handler.end_callbacks[:] = before


def test_old_objects_are_left_alone_while_dynamo_compiles(seen: list[int]) -> None:
    assert len(seen) == 1
    assert seen[0] > 10_000
    assert gc.get_freeze_count() == 0


def test_what_the_user_froze_stays_frozen(seen: list[int]) -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        torch.compile(lambda x: x + 2, backend="eager")(torch.ones(2))
        assert 0 < gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()
