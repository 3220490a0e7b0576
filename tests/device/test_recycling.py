"""Results in the memory of the call before: only where nobody refers to it any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import two_drivers
from torch.multiprocessing.reductions import StorageWeakRef

from ocl_inductor.errors import DeviceMemoryError
from ocl_inductor.runtime.memory import recycling
from ocl_inductor.runtime.memory.recycling import MIN_BYTES, Recycler
from ocl_inductor.runtime.pressure import release_idle, with_room

SIDE = 256  # a result of 256 KiB

assert SIDE * SIDE * 4 >= MIN_BYTES


@pytest.fixture(params=two_drivers("cpu"))
def double(request: pytest.FixtureRequest) -> Callable[[torch.Tensor], torch.Tensor]:
    """Twice a tensor, compiled, after the calls that make it steady."""
    torch.compiler.reset()
    function = torch.compile(
        lambda x: 2 * x, backend="opencl", dynamic=False, options={"device": request.param}
    )
    for _ in range(3):
        function(torch.ones(SIDE, SIDE))
    return function


HOLDERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda y: y,
    "view": lambda y: y[3:5],
    "array": lambda y: y.numpy(),
    "storage": lambda y: y.untyped_storage(),
    "graph": lambda y: (y.detach().requires_grad_() ** 2).grad_fn,
    "dlpack": torch.utils.dlpack.to_dlpack,
}


def test_memory_of_dropped_results_is_used_again(double: Any) -> None:
    x = torch.randn(SIDE, SIDE)
    pointers = set()
    for _ in range(4):
        y = double(x)
        assert torch.equal(y, 2 * x)
        pointers.add(y.data_ptr())
        del y
    assert len(pointers) == 1


@pytest.mark.parametrize("kind", HOLDERS)
def test_memory_that_something_refers_to_is_not(double: Any, kind: str) -> None:
    first, second = torch.randn(2, SIDE, SIDE)
    y = double(first)
    pointer = y.data_ptr()
    held = HOLDERS[kind](y)
    del y
    z = double(second)
    assert z.data_ptr() != pointer
    assert torch.equal(z, 2 * second)
    if kind in ("view", "array"):
        expected = 2 * first if kind == "array" else 2 * first[3:5]
        assert torch.equal(torch.as_tensor(held), expected)
    del held


def test_memory_shared_between_processes_is_not_used_again(double: Any) -> None:
    x = torch.randn(SIDE, SIDE)
    y = double(x)
    y.share_memory_()
    pointer = y.data_ptr()
    del y
    assert double(x + 1).data_ptr() != pointer


def test_each_result_has_its_own_version_and_gradient(double: Any) -> None:
    x = torch.randn(SIDE, SIDE, requires_grad=True)
    for _ in range(3):
        y = double(x)
        y.sum().backward()
        assert x.grad is not None
        assert torch.equal(x.grad, torch.full_like(x, 2.0))
        x.grad = None


def test_inference_mode_and_outside_of_it(double: Any) -> None:
    x = torch.randn(SIDE, SIDE)
    with torch.inference_mode():
        assert double(x).is_inference()
    y = double(x)
    assert not y.is_inference()
    assert torch.equal(y, 2 * x)


def kept(double: Any) -> StorageWeakRef:
    """The memory of a result that was dropped, which is kept for the next call."""
    storage = StorageWeakRef(double(torch.ones(SIDE, SIDE)).untyped_storage())
    assert not storage.expired()
    return storage


def test_reset_gives_the_memory_back(double: Any) -> None:
    storage = kept(double)
    torch.compiler.reset()
    assert storage.expired()


def test_it_goes_when_memory_is_short(double: Any) -> None:
    storage = kept(double)
    failed = []

    def allocate() -> None:
        if not failed:
            failed.append(True)
            raise DeviceMemoryError(1, 0, 0)

    with_room(allocate)
    assert failed
    assert storage.expired()
    x = torch.randn(SIDE, SIDE)
    assert torch.equal(double(x), 2 * x)


def test_what_is_in_use_stays_when_memory_is_short(double: Any) -> None:
    x = torch.randn(SIDE, SIDE)
    y = double(x)
    release_idle()
    assert torch.equal(double(x + 1), 2 * (x + 1))
    assert torch.equal(y, 2 * x)


def test_a_result_that_finds_no_memory_gets_what_others_keep(
    double: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's allocator refuses as long as another result is kept."""
    storage = kept(double)
    refused = []
    allocate = recycling.allocate

    def short(*args: Any, **options: Any) -> torch.Tensor:
        if not storage.expired():
            refused.append(True)
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return allocate(*args, **options)

    monkeypatch.setattr(recycling, "allocate", short)
    other = Recycler((SIDE, SIDE), (SIDE, 1), torch.float32, SIDE * SIDE * 4)
    assert other.make().shape == (SIDE, SIDE)
    assert refused
    monkeypatch.setattr(recycling, "allocate", lambda *_, **__: _never())
    with pytest.raises(RuntimeError, match="can't allocate"):
        Recycler((SIDE,), (1,), torch.float32, MIN_BYTES).make()


def _never() -> torch.Tensor:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory")


def test_the_first_call_keeps_its_results_for_the_second() -> None:
    torch.compiler.reset()
    function = torch.compile(lambda x: 3 * x, backend="opencl", dynamic=False)
    pointers = {function(torch.ones(SIDE, SIDE)).data_ptr() for _ in range(3)}
    assert len(pointers) == 1
