"""What ``test_ocl.py`` runs in a process of its own: single operators on ``ocl`` tensors."""

from __future__ import annotations

import gc
import math
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn import functional as F

from ocl_inductor.eager import compiled
from ocl_inductor.eager.calls import call_of
from ocl_inductor.errors import IntegerDivisionError

LAZY = "OCL_INDUCTOR_TEST_LAZY" in os.environ
DISCRETE = os.environ.get("OCL_INDUCTOR_MEMORY") in ("discrete", "buffers")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t() * 2,
        lambda x: x.t() + x.t().contiguous(),
        lambda x: x[:, ::2] - 1,
        lambda x: x.t().relu(),
        lambda x: x.expand(3, 4, 6) * 2,
        lambda x: x.t() @ x,
        lambda x: x.t().sum(0),
        lambda x: torch.cat([x.t(), x.t()]),
        lambda x: x.reshape(1, 2, 2, 6).contiguous(memory_format=torch.channels_last) + 1,
        lambda x: x.t().clamp(-0.5, 0.5),
        lambda x: x.t().abs(),
        lambda x: x.t().softmax(0),
        lambda x: torch.logsumexp(x, 0),
        lambda x: torch.nan_to_num(x.t(), 1.0),
        lambda x: torch.logical_and(x.t() > 0, x.t() < 1),
    ],
)
def test_results_look_as_the_cpu_has_them(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(4, 6)
    for _ in range(3):
        expected, found = function(x), function(x.to("ocl"))
        assert (found.shape, found.stride()) == (expected.shape, expected.stride())
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.skipif(LAZY, reason="memory is allocated when it is needed")
def test_memory_of_results_goes_with_them() -> None:
    x = torch.randn(1000).to("ocl")
    gc.collect()
    before = torch.ocl.memory_allocated()
    y = x * 2
    view = y[10:]
    del y
    assert torch.ocl.memory_allocated() >= before + 4000
    torch.testing.assert_close(view.cpu(), x.cpu()[10:] * 2)
    del view
    gc.collect()
    assert torch.ocl.memory_allocated() == before


def test_results_are_apart() -> None:
    x = torch.randn(6, 4).to("ocl")
    for made in (x.clone(), x.contiguous().clone(), x * 1, torch.cat([x]), x.to(torch.float32)):
        same = made.data_ptr() == x.data_ptr()
        before = x.cpu()
        made.add_(1)
        assert same == (not x.cpu().equal(before))
        x.copy_(before)
    values, order = x.sort(0)
    values.zero_()
    assert order.cpu().equal(x.cpu().sort(0).indices)


def test_inference_mode() -> None:
    x, y = torch.randn(5), torch.zeros(5)
    there, home = x.to("ocl"), y.to("ocl")
    with torch.inference_mode():
        inside = there + home
        home.add_(inside)
    home.mul_(2)
    torch.testing.assert_close(home.cpu(), x * 2)
    weight = torch.ones(5, device="ocl", requires_grad=True)
    (weight * there * 3).sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad.cpu(), x * 3)


def test_arguments_that_share_memory() -> None:
    x = torch.randn(8)
    for a in (0.5, 0.25, 2.0, 3.0):
        y, there = x.clone(), x.to("ocl")
        for z in (y, there):
            z.add_(z, alpha=a)
            z[1:].add_(z[:-1].clone(), alpha=a)
            torch.add(z, z, alpha=a, out=z)
        torch.testing.assert_close(there.cpu(), y)


def limited(x: Tensor, number: float) -> Tensor:
    """Which of 0.0 and -0.0 is the smaller one is not said."""
    return x.clamp(max=number)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-40, 3e38, 1e300])
def test_numbers_at_the_limits(number: float) -> None:
    x = torch.tensor([1.0, -2.0, 0.0, 0.5])
    there = x.to("ocl")
    for function in (
        lambda t, a: t * a,
        lambda t, a: t + a,
        limited,
        lambda t, a: t > a,
        lambda t, a: t.clone().masked_fill_(t > 0, a),
        torch.copysign,
    ):
        for a in (0.5, 0.75, number):
            try:
                expected = function(x, a)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=re.escape(str(error)[:40])):
                    function(there, a)
                continue
            found = function(there, a).cpu()
            if function is limited and math.isnan(a):
                expected = torch.full_like(x, a)  # PyTorch 2.11's own on the CPU ignores the bound
            torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-6, atol=1e-45)
            if expected.is_floating_point() and function is not limited:
                same = torch.signbit(found) == torch.signbit(expected)
                assert (same | expected.isnan()).all()


def test_numbers_that_are_refused() -> None:
    x = torch.arange(4)
    there, bytes_there = x.to("ocl"), x.to(torch.uint8).to("ocl")
    for a in (1, 2, 3):
        there.add(there, alpha=a)
        bytes_there.fill_(a)
        assert (there**a).cpu().equal(x**a)
        assert there.floor_divide(a).cpu().equal(x.floor_divide(a))
    with pytest.raises(RuntimeError, match="alpha"):
        there.add(there, alpha=2.5)
    with pytest.raises(RuntimeError, match="overflow"):
        bytes_there.fill_(300)
    assert bytes_there.cpu().eq(3).all()
    with pytest.raises(RuntimeError, match="negative"):
        _ = there**-1
    with pytest.raises((IntegerDivisionError, RuntimeError)):
        there.floor_divide(0).cpu()
    for a in (0.5, 0.75, 0.25):
        with pytest.raises(RuntimeError, match="cast"):
            there.mul_(a)
        with pytest.raises(RuntimeError, match="cast"):
            torch.mul(there, a, out=torch.empty(4, dtype=torch.int64, device="ocl"))
    assert there.cpu().equal(x)
    real = torch.randn(4).to("ocl")
    for a in (0.5, 0.25, 0.125):
        F.softshrink(real, a)
    with pytest.raises(RuntimeError, match="lambda must be"):
        F.softshrink(real, -0.5)
    with pytest.raises(RuntimeError, match="size of tensor"):
        real + torch.ones(3, device="ocl")


def test_an_integer_and_a_real_number_of_one_value() -> None:
    x = torch.arange(4)
    there = x.to("ocl")
    for a in (1, 1.0, 2, 2.0, 3, 3.0, True, 2.5):
        expected, found = x * a, there * a
        assert found.dtype == expected.dtype
        assert found.cpu().equal(expected)


def test_threads_with_numbers_of_their_own() -> None:
    x = torch.randn(64)
    there = x.to("ocl")
    wrong: list[float] = []

    def work(start: float) -> None:
        for n in range(60):
            a = start + n / 8
            if not (there * a).cpu().equal(x * a):
                wrong.append(a)

    for a in (0.5, 0.25):
        _ = there * a
    threads = [threading.Thread(target=work, args=(float(k),)) for k in (1, 100, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_dynamo_does_not_trace_kernels() -> None:
    torch._dynamo.reset()
    x = torch.randn(6, 6).to("ocl")
    known = x.cpu()

    @torch.compile(backend="eager")
    def program(t: Tensor) -> Tensor:
        y = t + 1
        torch._dynamo.graph_break()
        return torch.linalg.svdvals(y.detach())[:1] * 2 + y.sum()

    counters.clear()
    found = program(x)
    frames = counters["frames"]["total"]
    torch.testing.assert_close(found.cpu(), program(known))
    assert 0 < frames <= 3  # the function, and what follows the break


@pytest.mark.skipif(not DISCRETE, reason="the host's kernels are there already")
def test_plans_of_operators_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 11)
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    for hits in (0, 2):
        fresh = compiled._GraphFunctions(torch.device("ocl", 0))
        monkeypatch.setattr(compiled, "_functions_of", lambda _, fresh=fresh: fresh)
        counters.clear()
        there = x.to("ocl")
        for a in (0.5, 0.25, 0.75):
            call = call_of(torch.ops.aten.mul.Tensor, (there, a), {}, there.device)
            assert call is not None
            (found,) = fresh.run(torch.ops.aten.mul.Tensor, (there, a), {}, call)
            assert found.cpu().equal(x * a)
        assert counters["opencl"]["plan_hits"] == hits
        assert counters["opencl"]["plan_misses"] == 2 - hits


@pytest.mark.parametrize("name", ["add", "hypot", "complex", "polar", "exp", "cumsum", "sort"])
def test_results_in_the_order_of_their_arguments(name: str) -> None:
    """An empty ``out=``, and what PyTorch computes by one, gets the strides that eager gives."""
    function = getattr(torch, name)
    x, y = torch.rand(3, 5).t(), torch.rand(3, 5).t()

    def arguments(place: str) -> tuple[object, ...]:
        if name in ("cumsum", "sort"):
            return x.to(place), 0
        return (x.to(place),) if name == "exp" else (x.to(place), y.to(place))

    def run(place: str) -> list[Tensor]:
        plain = function(*arguments(place))
        several = isinstance(plain, tuple)
        outs = [
            torch.empty(0, dtype=r.dtype, device=place) for r in (plain if several else [plain])
        ]
        function(*arguments(place), out=tuple(outs) if several else outs[0])
        return [*(plain if several else [plain]), *outs]

    for found, expected in zip(run("ocl"), run("cpu"), strict=True):
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found.cpu(), expected)
