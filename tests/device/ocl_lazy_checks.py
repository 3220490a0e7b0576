"""What ``test_ocl.py`` runs in a process of its own: ``torch.ocl.lazy()``.

The device, and whether its memory is the host's or its own, come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY.
"""

from __future__ import annotations

import copy
import gc
import io
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from lazy_counts import (  # noqa: F401  (fresh: for each test)
    allocations,
    close,
    fresh,
    graphs,
    hits,
    one_by_one,
    pending,
)
from torch import nn
from torch._dynamo.utils import counters

import ocl_inductor.eager  # noqa: F401
from benchmarks.lazy import one_round
from ocl_inductor.eager.lazy.record import CALLS_OF_A_LOOP

Tensor = torch.Tensor
DISCRETE = os.environ.get("OCL_INDUCTOR_MEMORY") in ("discrete", "buffers")


# -- what is computed ----------------------------------------------------------------------


def test_a_loop_of_a_product_and_five_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round is one kernel; its temporaries are never allocated; no round compiles anew."""
    monkeypatch.setenv("OCL_INDUCTOR_CHAIN", "0")  # which may share a launch
    n, rounds = 128, 200
    x, w, b = torch.randn(n, n), torch.randn(n, n) / n**0.5, torch.randn(n)
    expected = x.double()
    for _ in range(rounds):
        expected = one_round(expected, w.double(), b.double())
    there = [t.to("ocl") for t in (x, w, b)]
    with torch.ocl.lazy():
        y = there[0]
        before, started = allocations(), torch.ocl.memory_allocated()
        torch.ocl.reset_peak_memory_stats()
        for _ in range(rounds):
            y = one_round(y, *there[1:])
        close(y, expected.float(), rtol=1e-4, atol=1e-5)
        per_graph = -(-CALLS_OF_A_LOOP // 6)
        whole, rest = divmod(rounds, per_graph)
        assert graphs() == 1 + (rest > 0)
        # Before the first round a graph may put the weight in the order that products of this
        # processor read it in.
        packed = counters["opencl"]["kernels"] - (per_graph + rest)
        assert packed in (0, graphs())
        assert hits() == whole - 1
        # One result of each graph, and at most the last one beside it. A round has six.
        assert allocations() - before <= 3 * (whole + 1)
        assert torch.ocl.max_memory_allocated() - started <= 4 * n * n * 4
        for _ in range(rounds):
            y = one_round(y, *there[1:])
        y.cpu()
        assert graphs() == 1 + (rest > 0)


def test_temporaries_that_were_dropped_never_exist() -> None:
    x = torch.randn(1000).to("ocl")
    torch.ocl.synchronize()
    gc.collect()
    with torch.ocl.lazy():
        before, held = allocations(), torch.ocl.memory_allocated()
        y = x + 1
        z = y * 2
        del y
        unused = torch.empty(1 << 20, device="ocl")
        dropped = torch.zeros(1 << 20, device="ocl") + 1
        del dropped
        assert allocations() == before
        torch.ocl.synchronize()
        assert allocations() - before == 1
        assert 4000 <= torch.ocl.memory_allocated() - held < 8192
        close(z, (x.cpu() + 1) * 2)
        assert pending(unused)
        assert unused.data_ptr()
        assert allocations() - before == 2
        w = x + 3
        kept = w * 4  # both live
        torch.ocl.synchronize()
        assert allocations() - before == 4
        close(w, x.cpu() + 3)
        close(kept, (x.cpu() + 3) * 4)


def test_nothing_runs_for_what_was_dropped() -> None:
    x = torch.randn(10).to("ocl")
    with torch.ocl.lazy():
        y = x + 1
        del y
        torch.ocl.synchronize()
    assert graphs() == 0


def test_a_known_structure_is_found_again() -> None:
    x, y = torch.randn(5, 7), torch.randn(5, 7)
    with torch.ocl.lazy():
        for n in range(4):
            found = (x.to("ocl") * y.to("ocl")).softmax(1).sum(0)
            close(found, (x * y).softmax(1).sum(0))
            assert (graphs(), hits()) == (1, n)
            x = torch.randn(5, 7)
    assert one_by_one() == 0


def test_numbers_that_change() -> None:
    """The first ones are constants; from the second on they are arguments of one more graph."""
    x = torch.randn(33)
    there = x.to("ocl")
    values = (0.5, 2.0, 0.75, 0.0, -0.0, math.inf, math.nan, 1e-30, 3.0, 0.1)
    with torch.ocl.lazy():
        for a in values:
            found = torch.clamp((there * a + 1.5) / (a + 2), max=100.0)
            expected = torch.clamp((x * a + 1.5) / (a + 2), max=100.0)
            close(found, expected, equal_nan=True)
            assert torch.signbit(there.mul(a).cpu()).equal(torch.signbit(x * a))
        assert graphs() <= 4
        for k in range(5):
            close(there * k, x * k)
        assert one_by_one() == 0


def test_numbers_that_a_type_does_not_have() -> None:
    x = torch.zeros(4, dtype=torch.uint8, device="ocl")
    whole = torch.arange(4, device="ocl")
    with torch.ocl.lazy():
        for a in (1, 2, 255):
            x.fill_(a)
            assert x.cpu().eq(a).all()
        with pytest.raises(RuntimeError, match="overflow"):
            x.fill_(300)
        close(whole**2, torch.arange(4) ** 2)
        with pytest.raises(RuntimeError, match="negative"):
            _ = whole**-1
        with pytest.raises(RuntimeError, match="cast"):
            whole.mul_(0.5)
        assert x.cpu().eq(255).all()


def test_parts_of_a_batch_need_one_graph() -> None:
    data = torch.randn(10, 8)
    there = data.to("ocl")
    with torch.ocl.lazy():
        for n in range(5):
            close(
                (there[2 * n : 2 * n + 2] + 1).relu().sum(1),
                (data[2 * n : 2 * n + 2] + 1).relu().sum(1),
            )
        assert graphs() == 1


# -- who needs values ----------------------------------------------------------------------

ASKING: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x[0, 0].item(),
    "cpu": lambda x: x.cpu(),
    "copy": lambda x: torch.empty(3, 3).copy_(x),
    "print": repr,
    "bool": lambda x: bool((x > 0).any()),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "tolist": lambda x: x.tolist(),
    "equal": lambda x: torch.equal(x, x.clone()),
    "save": lambda x: torch.save(x, io.BytesIO()),
    "deepcopy": copy.deepcopy,
    "address": lambda x: x.data_ptr(),
    "storage": lambda x: x.untyped_storage().data_ptr(),
    "synchronize": lambda x: torch.ocl.synchronize(),
    "event": lambda x: torch.ocl.Event().record(),
    "stream": lambda x: torch.ocl.Stream().synchronize(),
    "on the host": lambda x: torch.linalg.svdvals(x).cpu(),
    "compiled": torch.compile(lambda t: t * 2, backend="opencl"),
    "resize": lambda x: x.resize_(3, 3),
    "complex": lambda x: torch.view_as_complex(x[0, :2]),
    "other type": lambda x: x.view(torch.int32) + 1,
}


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_for_a_value_gets_it(name: str) -> None:
    x = torch.randn(3, 3)
    there = x.to("ocl")
    with torch.ocl.lazy():
        y = torch.exp(there) - 1
        assert pending(y)
        ASKING[name](y)
        assert not pending(y)
        close(y, torch.exp(x) - 1)


def test_what_is_asked_for_is_right() -> None:
    x = torch.randn(3, 3)
    with torch.ocl.lazy():
        y = x.to("ocl").exp()
        assert y.sum().item() == pytest.approx(x.exp().sum().item(), rel=1e-5)
        assert (y * 2).tolist()[1][2] == pytest.approx(x.exp()[1, 2].item() * 2, rel=1e-5)
        assert f"{(y * 0)[0, 0]:.1f}" == "0.0"
        assert "ocl:0" in repr(y * 2)
        file = io.BytesIO()
        torch.save(y + 1, file)
        file.seek(0)
        torch.testing.assert_close(torch.load(file, map_location="cpu"), x.exp() + 1)
        close(copy.deepcopy(y - 1), x.exp() - 1)
        close(torch.compile(lambda t: t * 2, backend="opencl")(y + 1), (x.exp() + 1) * 2)
        close((y + 1)[y > 1], (x.exp() + 1)[x.exp() > 1])
        torch.testing.assert_close(
            torch.linalg.svdvals(y * 3).cpu(), torch.linalg.svdvals(x.exp() * 3)
        )
        count = 0
        while y.sum() > 1:  # control flow on data
            y = y / 2
            count += 1
        assert count == math.ceil(math.log2(x.exp().sum().item()))


def test_leaving_computes() -> None:
    x = torch.randn(4)
    there = x.to("ocl")
    with torch.ocl.lazy():
        assert torch.ocl.is_lazy()
        with torch.ocl.lazy():
            inner = there + 1
        assert not pending(inner)
        y, memory = there * 2, torch.empty(3, device="ocl")
    assert not pending(y) and not pending(memory)
    assert not {"data_ptr", "untyped_storage"} & set(torch.Tensor.__dict__)
    close(y, x * 2)
    torch.ocl.set_lazy(True)
    z = there * 3
    assert pending(z)
    torch.ocl.set_lazy(False)
    assert not torch.ocl.is_lazy()
    close(z, x * 3)
    with pytest.raises(ZeroDivisionError), torch.ocl.lazy():
        y = there * 4
        _ = 1 // 0
    close(y, x * 4)


def test_a_copy_from_the_host_waits_for_nothing_else() -> None:
    x = torch.randn(4)
    with torch.ocl.lazy():
        y = x.to("ocl") * 2
        z = torch.ones(3).to("ocl")
        assert pending(y)
        close(z, torch.ones(3))
        assert pending(y)
        source = torch.randn(4)
        y.copy_(source)
        close(y, source)


# -- views and writes ----------------------------------------------------------------------

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "t": lambda x: x.t(),
    "rows": lambda x: x[1:3],
    "columns": lambda x: x[:, 1:4],
    "every second": lambda x: x[::2, 1::2],
    "row": lambda x: x[2],
    "column": lambda x: x[:, 2],
    "element": lambda x: x[1, 2],
    "reshaped": lambda x: x.view(2, 2, 6)[:, 1],
    "heads": lambda x: x.view(4, 3, 2).permute(1, 2, 0),
    "diagonal": lambda x: x.diagonal(),
    "expanded": lambda x: x[:, :1].expand(4, 5),
    "new dimension": lambda x: x[:, None, 2:],
    "unfold": lambda x: x.unfold(1, 3, 2),
    "detached": lambda x: x.detach()[1:],
    "strided": lambda x: x.as_strided((3, 2), (5, 7), 2),
    "flipped parts": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "narrow": lambda x: x.t()[1:4].t()[1:],
    "nothing": lambda x: x[2:2],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("ready", [False, True], ids=["pending", "ready"])
def test_views_are_read(name: str, ready: bool) -> None:
    x = torch.randn(4, 6)
    view = VIEWS[name]
    for _ in range(2):
        with torch.ocl.lazy():
            y = x.to("ocl") * 2
            if ready:
                torch.ocl.synchronize()
            found = view(y) + view(y * 3) * 2
            expected = view(x * 2) + view(x * 2 * 3) * 2
            assert found.stride() == expected.stride()
            close(found, expected)
            close(y, x * 2)


@pytest.mark.parametrize(
    "name", [k for k in VIEWS if k not in ("expanded", "unfold", "flipped parts")]
)
@pytest.mark.parametrize("ready", [False, True], ids=["pending", "ready"])
def test_views_are_written(name: str, ready: bool) -> None:
    x = torch.randn(4, 6)
    view = VIEWS[name]
    for a in (2.0, 3.0, 4.0):
        with torch.ocl.lazy():
            base = x.clone()
            y = x.to("ocl") + 0
            if ready:
                torch.ocl.synchronize()
            for t in (base, y):
                before = t * 1
                view(t).mul_(a)
                t += 1
                view(t).copy_(view(before) - view(t))
                t[0].fill_(a)
            close(y, base)


def test_in_place_stays_lazy() -> None:
    x = torch.randn(8)
    there = x.to("ocl")
    same = there
    with torch.ocl.lazy():
        y = there * 2
        y += 1
        y.mul_(3).relu_()
        there.add_(y)
        there -= 0.5
        assert pending(y)
        assert graphs() == 0
        assert there is same
        expected = x + ((x * 2 + 1) * 3).relu() - 0.5
        close(there, expected)
        assert graphs() == 1
        close(y, ((x * 2 + 1) * 3).relu())
        out = torch.empty(8, device="ocl")
        assert torch.add(there, 1, out=out) is out
        close(out, expected + 1)


def test_parts_that_lie_apart_and_are_written() -> None:
    x = torch.randn(4, 8)
    there = x.to("ocl")
    with torch.ocl.lazy():
        for t in (x, there):
            left, right = t[:, :3], t[:, 3:]
            total = left.sum(1) * right.sum(1)
            right.mul_(total[:, None])
            left += right[:, :3]
            t[1:].sub_(t[:-1].clone())
        close(there, x)


def test_what_eager_refuses() -> None:
    x = torch.randn(6).to("ocl")
    before = x.cpu()
    with torch.ocl.lazy():
        y = x * 2
        with pytest.raises(RuntimeError, match="size of tensor"):
            y + torch.ones(5, device="ocl")
        with pytest.raises(RuntimeError, match="unsupported operation"):
            y[:1].expand(6).add_(1)
        if not DISCRETE:  # there the host adds copies
            with pytest.raises(RuntimeError, match="unsupported operation"):
                y[1:].add_(y[:-1])
        with pytest.raises(RuntimeError, match="out of bounds"):
            y.as_strided((7,), (1,))
        with pytest.raises(RuntimeError, match="devices"):
            y + torch.ones(6)
        close(y, before * 2)


def test_a_tensor_that_becomes_another_one() -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    with torch.ocl.lazy():
        a, b = x.to("ocl"), y.to("ocl")
        first = a + 1
        a.data = b
        second = a + 1
        close(first, x + 1)
        close(second, y + 1)
        c = b * 2
        c.t_()
        close(c + 1, (y * 2).t() + 1)
        d = b * 3
        d.data = d.data.t()
        close(d - 1, (y * 3).t() - 1)
        e, f = b * 4, torch.empty(0, device="ocl")
        f.set_(e)
        f += 1
        close(e, y * 4 + 1)
        g, h = nn.Parameter(b * 1), nn.Parameter(b * 5)
        torch.utils.swap_tensors(g, h)
        close(g.detach() + 0, y * 5)
        close(h.detach() + 0, y * 1)


def test_equal_results_are_apart() -> None:
    x = torch.randn(5)
    there = x.to("ocl")
    for _ in range(2):
        with torch.ocl.lazy():
            y, z, same = there + 1, there + 1, there.clone()
            torch.ocl.synchronize()
            y.mul_(0)
            same.add_(5)
            close(z, x + 1)
            close(there, x)
            close(same, x + 5)


def test_sizes_that_are_nothing() -> None:
    with torch.ocl.lazy():
        for shape in ((), (0,), (3, 0, 2), (1,)):
            x = torch.randn(shape)
            found = (x.to("ocl") + 1).t() if len(shape) < 2 else x.to("ocl").transpose(0, 2) * 2
            expected = (x + 1).t() if len(shape) < 2 else x.transpose(0, 2) * 2
            assert found.shape == expected.shape
            close(found, expected)
