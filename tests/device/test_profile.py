"""``ocl_inductor.profile()``: every kernel is found, times fit, and nothing is changed."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import two_drivers

import ocl_inductor
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.select import select_device
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.observe.profiler import result
from ocl_inductor.runtime import recording
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.device_clock import DeviceClock
from ocl_inductor.runtime.event_times import timed_ns
from ocl_inductor.runtime.stream import CommandStream
from ocl_inductor.tune.roof import Roof

#: Software devices are out: one was seen to report the same moment for start and end.
each_driver = pytest.mark.parametrize("driver", two_drivers())
one_driver = pytest.mark.parametrize("driver", two_drivers()[:1])


@pytest.fixture(autouse=True)
def known_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates that were not measured: that takes a while, and has tests of its own."""
    monkeypatch.setattr(result, "measured_roof", lambda device, settings: Roof(10.0, 100.0))


def compiled(function: Callable[..., Any], driver: str, **options: Any) -> Callable[..., Any]:
    options["device"] = driver
    return torch.compile(function, backend="opencl", options=options)


def two_kernels(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).relu().sum(0)


@each_driver
def test_graphs_compiled_before_and_inside(driver: str) -> None:
    torch.compiler.reset()
    x = torch.randn(64, 64)
    before = compiled(two_kernels, driver)
    expected = [before(x) for _ in range(3)]  # the third call takes the short path
    with ocl_inductor.profile() as p:
        results = [before(x) for _ in range(4)]
        inside = compiled(lambda x: x.exp() + 1, driver)
        torch.testing.assert_close(inside(x), x.exp() + 1)
    after = before(x)
    for r in (*results, after):
        assert torch.equal(r, expected[0])
    calls = {k.name: k.calls for k in p.kernels}
    assert sum(n for name, n in calls.items() if "sum" in name) == 4
    assert [k.flops for k in p.kernels if k.calls == 1] == [2 * 64 * 64]
    assert len(p.calls) == 5
    assert p.breakdown.compile_ns > 0


@each_driver
def test_times_lie_in_the_calls(driver: str) -> None:
    f, x = compiled(two_kernels, driver), torch.randn(64, 64)
    f(x)
    with ocl_inductor.profile() as p:
        f(x)
        f(x)
    first, second = p.calls
    assert p.start_ns <= first.start_ns < first.end_ns <= second.start_ns < second.end_ns
    assert second.end_ns <= p.end_ns
    for call in p.calls:
        assert call.spans and call.device == select_device(driver).short_name
        for span in call.spans:
            assert call.start_ns <= span.start_ns <= span.end_ns <= call.end_ns


@one_driver
def test_costs_and_shares(driver: str) -> None:
    n = 64
    f, x = compiled(lambda x: x @ x, driver), torch.randn(n, n)
    f(x)
    with ocl_inductor.profile() as p:
        f(x)
        f(x)
    gemm = max(p.kernels, key=lambda k: k.flops)
    assert gemm.calls == 2 and gemm.flops == 2 * 2 * n**3
    assert gemm.gflop_s == gemm.flops / gemm.total_ns
    assert gemm.gb_s == gemm.nbytes / gemm.total_ns
    assert gemm.operators
    assert abs(sum(k.share for k in p.kernels) - 1) < 1e-9
    least = Roof(10.0, 100.0).least_ns(gemm.flops / 2, gemm.nbytes / 2) * 2
    assert gemm.roof_share == pytest.approx(least / gemm.total_ns)
    assert [k.total_ns for k in p.kernels] == sorted((k.total_ns for k in p.kernels), reverse=True)


@one_driver
def test_symbolic_sizes_count_as_they_were(driver: str) -> None:
    f = torch.compile(lambda x: x * 2, backend="opencl", options={"device": driver}, dynamic=True)
    f(torch.randn(3, 50))
    with ocl_inductor.profile() as p:
        f(torch.randn(3, 50))
        f(torch.randn(5, 70))
    kernels = [s for c in p.calls for s in c.spans if s.kind == "kernel"]
    assert [s.flops for s in kernels] == [150, 350]


@one_driver
def test_breakdown_adds_up(driver: str) -> None:
    f, x = compiled(two_kernels, driver), torch.randn(64, 64)
    f(x)
    with ocl_inductor.profile() as p:
        f(x)
        time.sleep(0.05)
        f(x)
    b = p.breakdown
    assert b.active_ns + b.data_movement_ns + b.idle_ns == b.wall_ns
    kernels = [s for c in p.calls for s in c.spans if s.kind == "kernel"]
    assert b.active_ns == sum(s.end_ns - s.start_ns for s in kernels)
    assert b.idle_ns >= 50e6 and b.compile_ns == 0
    assert b["active"] + b["data_movement"] + b["idle"] == pytest.approx(1)
    inner = p.breakdown_of_calls
    assert inner.wall_ns <= b.wall_ns and inner.active_ns == b.active_ns


@each_driver
def test_transfers(driver: str) -> None:
    f = compiled(lambda x: x + 1, driver, memory="discrete")
    x = torch.randn(1000)
    f(x)
    with ocl_inductor.profile() as p:
        torch.testing.assert_close(f(x), x + 1)
    moved = [s.nbytes for c in p.calls for s in c.spans if s.kind == "transfer"]
    assert moved == [4000, 4000]
    assert p.breakdown.data_movement_ns > 0


def sorted_on_host(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.svdvals(x + 1) * 2


@each_driver
def test_host_calls(driver: str) -> None:
    f, x = compiled(sorted_on_host, driver), torch.randn(8, 8)
    f(x)
    with ocl_inductor.profile() as p:
        torch.testing.assert_close(f(x), sorted_on_host(x))
    (host,) = p.host_calls
    assert "svd" in host.operator and host.fallback and host.calls == 1 and host.total_ns > 0
    assert host.operator in p.table()


@one_driver
def test_a_failing_call_leaves_all_as_it_was(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = compiled(sorted_on_host, driver), torch.randn(8, 8)
    expected = f(x)
    with pytest.raises(torch.linalg.LinAlgError), ocl_inductor.profile() as p:
        f(torch.full((8, 8), torch.nan))
    assert len(p.calls) == 1
    assert recording.active is None
    assert torch.equal(f(x), expected)


def _enqueued_with(executor: Executor) -> dict[tuple[int, str], object]:
    """What live objects of a plan have that enqueues: queues, pyopencl, streams."""
    cl = load_pyopencl()
    objects = [executor, executor.memory, executor.guards, executor.replay, executor.device]
    return {
        (id(o), name): value
        for o in objects
        if o is not None
        for name, value in vars(o).items()
        if value is cl or isinstance(value, cl.CommandQueue | CommandStream)
    }


@each_driver
@pytest.mark.parametrize(
    "options", [{}, {"memory": "discrete"}, {"mode": "reduce-overhead"}], ids=str
)
def test_a_call_gets_a_stream_and_its_objects_stay_as_they_are(
    driver: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    f, x = compiled(two_kernels, driver, **options), torch.randn(64, 64)
    make = recording.EventRecorder.call
    streams: list[CommandStream] = []

    @contextlib.contextmanager
    def noted(self: Any, executor: Executor) -> Iterator[CommandStream]:
        before = _enqueued_with(executor)
        with make(self, executor) as stream:
            streams.append(stream)
            assert _enqueued_with(executor) == before
            yield stream
            assert _enqueued_with(executor) == before
        assert executor.stream.queue is executor.device.queue
        assert executor.stream.cl is load_pyopencl()

    monkeypatch.setattr(recording.EventRecorder, "call", noted)
    f(x)
    with ocl_inductor.profile() as p:
        f(x)
        f(x)
    f(x)
    takes_times = load_pyopencl().command_queue_properties.PROFILING_ENABLE
    assert len(p.calls) == len(streams) == 2
    assert all(s.queue.properties & takes_times for s in streams)
    assert not select_device(driver).queue.properties & takes_times


def test_one_profile_at_a_time() -> None:
    one = ocl_inductor.profile()
    with ocl_inductor.profile(), pytest.raises(OpenCLInductorError, match="already"), one:
        pass
    with ocl_inductor.profile() as p:
        pass
    assert p.kernels == () and "No compiled graph ran" in p.table()


@one_driver
def test_reset_inside(driver: str) -> None:
    f, x = compiled(two_kernels, driver), torch.randn(64, 64)
    with ocl_inductor.profile() as p:
        f(x)
        torch.compiler.reset()
        f(x)
    assert len(p.calls) == 2


@one_driver
def test_training(driver: str) -> None:
    model = torch.nn.Linear(8, 4)
    f = compiled(model, driver)
    with ocl_inductor.profile() as p:
        f(torch.randn(3, 8)).sum().backward()
    assert len(p.calls) == 2  # forward, and backward in autograd's thread
    assert model.weight.grad is not None


@each_driver
def test_threads(driver: str) -> None:
    functions = [compiled(lambda x, n=n: x * n, driver) for n in range(2, 4)]
    x = torch.randn(100)
    for f in functions:
        f(x)
    wrong: list[int] = []

    def work(f: Callable[..., Any], factor: int) -> None:
        for _ in range(20):
            if not torch.equal(f(x), x * factor):
                wrong.append(factor)

    with ocl_inductor.profile() as p:
        threads = [
            threading.Thread(target=work, args=(f, n)) for n, f in enumerate(functions, start=2)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong
    assert len(p.calls) == 40 and sum(k.calls for k in p.kernels) == 40


@each_driver
def test_trace_lines_up_with_torch(driver: str, tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, record_function
    from torch.profiler import profile as torch_profile

    f, x = compiled(two_kernels, driver), torch.randn(256, 256)
    f(x)
    f(x)
    with torch_profile(activities=[ProfilerActivity.CPU]) as theirs, ocl_inductor.profile() as ours:
        for _ in range(3):
            with record_function("the_call"):
                f(x)
            time.sleep(0.002)
    theirs.export_chrome_trace(str(tmp_path / "torch.json"))
    ours.export_chrome_trace(tmp_path / "both.json", beside=tmp_path / "torch.json")
    ours.export_chrome_trace(tmp_path / "ours.json")
    both, single_core = (json.loads((tmp_path / n).read_text()) for n in ("both.json", "ours.json"))
    assert both["baseTimeNanoseconds"] == single_core["baseTimeNanoseconds"]
    spans = [
        sorted((e["ts"], e["ts"] + e["dur"]) for e in chosen)
        for chosen in (
            [e for e in both["traceEvents"] if e.get("name") == "the_call" and e["ph"] == "X"],
            [e for e in both["traceEvents"] if e.get("cat") == "opencl_call"],
        )
    ]
    assert [len(s) for s in spans] == [3, 3]
    # torch converts a counter of the processor to time: some microseconds off, on a busy machine
    # more. Calls are milliseconds apart.
    off = 100
    for (start, end), (first, last) in zip(*spans):
        assert start - off <= first <= last <= end + off
    kernels = [e for e in single_core["traceEvents"] if e.get("cat") == "opencl_kernel"]
    assert len(kernels) == 3 * len(ours.kernels)
    for event in kernels:
        start, end = spans[0][event["args"]["call"]]
        assert start - off <= event["ts"] and event["ts"] + event["dur"] <= end + off
        assert event["args"]["bytes"] > 0


@each_driver
def test_clocks_agree_without_clamps(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distance of the clocks puts kernels into their call also before the clamps."""
    converted: list[int] = []
    convert = DeviceClock.to_host

    def noted(self: DeviceClock, device_ns: int) -> int:
        converted.append(convert(self, device_ns))
        return converted[-1]

    monkeypatch.setattr(DeviceClock, "to_host", noted)
    f, x = compiled(two_kernels, driver), torch.randn(64, 64)
    f(x)
    with ocl_inductor.profile() as p:
        f(x)
    (call,) = p.calls
    slack = 2_000_000  # the machine may pause between the two readings of a clock
    assert all(call.start_ns - slack <= t <= call.end_ns + slack for t in converted)


def test_kernels_take_time_on_every_driver(device_name: str) -> None:
    """Also where events have no times: products of 96³ take more than a microsecond."""
    if device_name == "oclgrind":
        pytest.skip("too slow on the simulator")
    f, x = compiled(lambda x: x @ x, device_name), torch.randn(96, 96)
    f(x)
    with ocl_inductor.profile() as p:
        found = f(x)
    torch.testing.assert_close(found, x @ x, rtol=1e-4, atol=1e-4)
    assert sum(k.total_ns for k in p.kernels) > 1000


class _Event:
    """One that says of every command what rusticl says."""

    class profile:
        start, end = 2, 3

    def wait(self) -> None:
        time.sleep(0.002)


def test_a_driver_without_times_has_the_hosts() -> None:
    assert 2_000_000 <= timed_ns(_Event) < 1_000_000_000  # type: ignore[arg-type]


def test_a_foreign_file_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    with ocl_inductor.profile() as p:
        pass
    with pytest.raises(ValueError, match="not a trace"):
        p.export_chrome_trace(tmp_path / "y.json", beside=tmp_path / "x.json")


@one_driver
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.usefixtures("unchained")
def test_table_fits(driver: str, width: int) -> None:
    f, x = compiled(two_kernels, driver), torch.randn(64, 64)
    with ocl_inductor.profile() as p:
        f(x)
    lines = p.table(width).splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b" not in p.table(width) and "…" not in p.table(width)
    text = "".join(p.table(width).split())
    assert all(k.name in text for k in p.kernels)
    shown = p.table(width, rows=1).splitlines()
    assert (f"{len(p.kernels) - 1} more" in "\n".join(shown)) == (len(p.kernels) > 1)


@pytest.fixture(autouse=True)
def _no_recorder_left() -> Iterator[None]:
    yield
    assert recording.active is None
