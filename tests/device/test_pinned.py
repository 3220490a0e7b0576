"""Large transfers through pinned memory, on drivers that do not need it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch import nn
from torch._dynamo.utils import counters

import ocl_inductor
from ocl_inductor.device import fork
from ocl_inductor.device.select import select_device
from ocl_inductor.runtime.discrete import pinned, transfers
from ocl_inductor.runtime.discrete.discrete import SMALL_BYTES, DiscreteMemory
from ocl_inductor.runtime.discrete.gathering import Gathering
from ocl_inductor.runtime.discrete.pinned import (
    CHUNK_BYTES,
    PinnedPool,
    pinned_pool_of,
    release_pinned,
)

each_driver = pytest.mark.parametrize("driver", two_drivers())

#: Elements of float32: of one part, of several, and of more than all chunks in flight.
SIZES = (SMALL_BYTES // 4 + 1, 300_001, 5_000_017)


@pytest.fixture
def staged(driver: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PinnedPool]:
    """The device as if large transfers were quicker through pinned memory."""
    device = select_device(driver)
    torch.compiler.reset()
    info = dataclasses.replace(device.info, pinned_staging=True)
    monkeypatch.setitem(vars(device), "_info", info)
    pool = pinned_pool_of(device)
    assert pool is not None
    yield pool
    assert all_idle(pool)
    release_pinned()
    assert pool.made == 0


def all_idle(pool: PinnedPool) -> bool:
    """Whether no transfer has kept a chunk."""
    return len(pool.idle) == pool.made


def two_results(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * 2 + y, (x + y).abs().sum(), x.flip(0) - y


@each_driver
@pytest.mark.parametrize("size", SIZES)
def test_agrees(driver: str, size: int, staged: PinnedPool) -> None:
    function = compiled(two_results, driver, memory="discrete")
    for _ in range(2):
        agree(
            two_results, random(size), random(size), device=driver, compiled_fn=function,
            rtol=1e-4, atol=1e-3,
        )  # fmt: skip
    assert 0 < staged.made <= pinned.MOST_CHUNKS


@each_driver
def test_a_chain_of_kernels(driver: str, staged: PinnedPool, unchained: None) -> None:
    """Uploads beside kernels, and results that go home before the last one."""
    shape = (700, 600)

    def fn(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        first = a.cumsum(0)
        second = (first + b).softmax(1)
        return first, second, (second.flip(0) * c).cumsum(1), first.abs().sum()

    agree(fn, *(random(*shape) for _ in range(3)), device=driver, memory="discrete",
          rtol=1e-3, atol=1e-3)  # fmt: skip


@each_driver
def test_inputs_may_be_overwritten_at_once(driver: str, staged: PinnedPool) -> None:
    function = compiled(lambda x: x + 1, driver, memory="discrete")
    x = random(2_000_003)
    for n in range(4):
        x.fill_(n)
        y = function(x)
        x.fill_(-1)
        assert torch.equal(y, torch.full_like(y, n + 1))


@each_driver
def test_written_inputs_come_home(driver: str, staged: PinnedPool) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(y)
        return x + y

    agree(fn, random(300_001), random(300_001), device=driver, memory="discrete")


@each_driver
def test_training(driver: str, staged: PinnedPool) -> None:
    model = nn.Sequential(nn.Linear(300, 500), nn.GELU(), nn.Linear(500, 70))
    function = compiled(model, driver, memory="discrete")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x = random(130, 300)
        for run in (model, function):
            optimizer.zero_grad()
            (run(x) ** 2).mean().backward()
            if run is model:
                expected = [p.grad.clone() for p in model.parameters()]  # type: ignore[union-attr]
        actual = [p.grad for p in model.parameters()]
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        optimizer.step()


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_host_calls(driver: str, staged: PinnedPool) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x.cumsum(0)
        return torch.linalg.svdvals(y) + 1, y.t() * 2

    agree(fn, random(200, 150) / 20, device=driver, memory="discrete", fallbacks=1,
          rtol=1e-3, atol=1e-3)  # fmt: skip


@each_driver
@pytest.mark.parametrize("most", [0, 1, 16])
@pytest.mark.parametrize("size", [4 * s for s in SIZES])
def test_every_way_of_a_transfer(
    driver: str, size: int, most: int, staged: PinnedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned, "MOST_CHUNKS", most)
    memory = DiscreteMemory(select_device(driver))
    stream = memory.stream
    first, second = (torch.randint(256, (size,), dtype=torch.uint8) for _ in range(2))
    buffer = memory.input(stream, "x", first, size)
    memory.finish(stream)
    assert torch.equal(memory.read(stream, buffer, size), first)
    source = second.clone()
    memory.write(stream, buffer, source, size)
    if most:  # it has left the tensor, or is done
        source.zero_()
    home = torch.zeros(size, dtype=torch.uint8)
    assert memory.output(stream, "x", home, size) is buffer
    memory.finish(stream)
    assert torch.equal(home, second)
    away = torch.zeros(size, dtype=torch.uint8)
    memory.write(stream, memory.stay(away, size), second, size)
    memory.finish(stream)
    assert not away.any()
    memory.bring_home(stream, away)
    assert torch.equal(away, second)
    memory.finish(stream)


@each_driver
def test_no_pinned_memory(driver: str, staged: PinnedPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "CHUNK_BYTES", 1 << 60)
    agree(two_results, random(300_001), random(300_001), device=driver, memory="discrete",
          rtol=1e-4, atol=1e-3)  # fmt: skip
    assert staged.made == 0 and staged.refused


@each_driver
@pytest.mark.parametrize("most", [1, 2])
def test_few_chunks(
    driver: str, most: int, staged: PinnedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one call's uploads are not there for its downloads, which then go directly."""
    monkeypatch.setattr(pinned, "MOST_CHUNKS", most)
    agree(two_results, random(5_000_017), random(5_000_017), device=driver, memory="discrete",
          rtol=1e-4, atol=1e-2)  # fmt: skip
    assert staged.made == most


@each_driver
def test_a_failing_call_gives_all_chunks_back(
    driver: str, staged: PinnedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = compiled(two_results, driver, memory="discrete")
    x, y = random(300_001), random(300_001)
    expected = function(x, y)
    broken = [(transfers.Downloads, "ask"), (transfers.Downloads, "land"), (Gathering, "deliver")]
    for owner, method in broken:
        with monkeypatch.context() as patch:
            patch.setattr(owner, method, _fail)
            with pytest.raises(ArithmeticError):
                function(x, y)
        assert all_idle(staged)
    for a, b in zip(function(x, y), expected, strict=True):
        assert torch.equal(a, b)


def _fail(*args: Any) -> None:
    raise ArithmeticError


@each_driver
def test_threads(driver: str, staged: PinnedPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer chunks than threads want: none waits for another's."""
    monkeypatch.setattr(pinned, "MOST_CHUNKS", 3)
    functions = [compiled(f, driver, memory="discrete", fullgraph=False) for f in (_times, _plus)]
    inputs = [random(1_500_001) for _ in range(4)]
    for function in functions:
        function(inputs[0])

    def work(number: int) -> None:
        x = inputs[number]
        for _ in range(3):
            assert torch.equal(functions[0](x), x * 2)
            assert torch.equal(functions[1](x), x + 1)

    with ThreadPoolExecutor(len(inputs)) as threads:
        list(threads.map(work, range(len(inputs))))
    assert staged.made == 3


def _times(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _plus(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@each_driver
def test_a_forked_child_leaves_them_alone(
    driver: str, staged: PinnedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = staged.take()
    assert chunk is not None
    staged.give(chunk)
    with monkeypatch.context() as patch:
        patch.setattr(fork, "forked", True)
        assert release_pinned() == 0 and staged.idle == [chunk]
    assert release_pinned() == CHUNK_BYTES


@each_driver
def test_a_profile_has_all_transfers(driver: str, staged: PinnedPool) -> None:
    function = compiled(lambda x: x + 1, driver, memory="discrete")
    x = random(2_000_003)
    function(x)
    with ocl_inductor.profile() as found:
        torch.testing.assert_close(function(x), x + 1)
    moved = [s.nbytes for c in found.calls for s in c.spans if s.kind == "transfer"]
    assert sum(moved) == 2 * x.nbytes and len(moved) > 2


@each_driver
def test_counters(driver: str, staged: PinnedPool) -> None:
    function = compiled(lambda x: x + 1, driver, memory="discrete")
    x = random(2_000_003)
    function(x)
    before = dict(counters["opencl"])
    function(x)
    after = counters["opencl"]
    for name in ("bytes_uploaded", "bytes_downloaded"):
        assert after[name] - before[name] == x.nbytes
    assert after["pinned_bytes"] == before["pinned_bytes"] == staged.made * CHUNK_BYTES
    assert release_pinned() == after["pinned_bytes"]


@each_driver
def test_reset_frees_them(driver: str, staged: PinnedPool) -> None:
    compiled(_plus, driver, memory="discrete")(random(300_001))
    assert staged.made > 0
    torch.compiler.reset()
    assert staged.made == 0


def test_parts_cover_all() -> None:
    for nbytes in (1, SMALL_BYTES + 1, 1 << 20, (1 << 24) + 3, 100_000_001):
        end = 0
        for start, size in transfers.parts(nbytes):
            assert start == end and 0 < size <= CHUNK_BYTES
            end += size
        assert end == nbytes


@each_driver
def test_who_has_a_use_for_it(driver: str) -> None:
    device = select_device(driver)
    discrete_gpu = device.kind != "cpu" and not device.info.unified_memory
    assert device.info.pinned_staging == discrete_gpu
    assert (pinned_pool_of(device) is not None) == discrete_gpu
