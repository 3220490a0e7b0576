"""What ``test_ocl.py`` runs in a process of its own: tensors and modules on the device ``ocl``.

The device, and whether its memory is the host's or its own, come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

from ocl_inductor.errors import (
    IndexOutOfRangeError,
)
from ocl_inductor.resident import tensors
from ocl_inductor.resident.places import place
from ocl_inductor.runtime.discrete.pinned import PinnedPool

Tensor = torch.Tensor
LAZY = "OCL_INDUCTOR_TEST_LAZY" in os.environ
DISCRETE = os.environ.get("OCL_INDUCTOR_MEMORY") in ("discrete", "buffers")
DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    return torch.compile(function, backend="opencl", options={"fallback": "error"})


def moved() -> int:
    """Bytes that compiled code has moved between host and device."""
    own = counters["opencl"]
    return int(own["bytes_uploaded"] + own["bytes_downloaded"])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_there_and_back(dtype: torch.dtype) -> None:
    x = (torch.randn(3, 5, 7) * 10).to(dtype)
    there = x.to("ocl")
    assert there.device == torch.device("ocl", 0)
    assert there.dtype == dtype
    assert there.cpu().equal(x)
    assert x.transpose(0, 2).to("ocl").cpu().equal(x.transpose(0, 2))
    assert there[1:, ::2].cpu().equal(x[1:, ::2])
    assert there[0, 0].expand(4, 7).cpu().equal(x[0, 0].expand(4, 7))


@pytest.mark.skipif(not DISCRETE, reason="the host has the memory")
def test_large_copies_go_through_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PinnedPool(place())
    monkeypatch.setattr(tensors, "pinned_pool_of", lambda device: pool)
    x = torch.randn(3 * 1000 * 1001)
    there = x.to("ocl")
    assert there.cpu().equal(x)
    there[5:-7].mul_(2)
    assert there.cpu()[5:-7].equal(x[5:-7] * 2)
    assert there[::3].cpu().equal(there.cpu()[::3])
    there.view(1001, -1).t()[7:].copy_(torch.ones(2993, 1001))
    expected = there.cpu().view(1001, -1)
    assert expected[:, 7:].eq(1).all()
    assert not expected[:, :7].eq(1).any()
    assert pool.made > 0
    pool.release()


def test_small_shapes() -> None:
    for shape in ((), (0,), (3, 0, 2), (1,)):
        x = torch.randn(shape)
        assert x.to("ocl").cpu().equal(x)
        assert (x.to("ocl") + 1).cpu().equal(x + 1)
    assert torch.tensor(2.5, device="ocl").item() == 2.5


def test_views_share_memory() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    y = x.to("ocl")
    for z in (x, y):
        z[1].mul_(10)
        z.t()[2].fill_(-1)
        z.view(-1)[5] = 7
        z[:, ::2].copy_(z[:, 1::2] * 2)
    assert y.cpu().equal(x)
    assert y[1].untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def test_between_the_elements_of_a_view_nothing_changes() -> None:
    x = torch.randn(4, 6).to("ocl")
    before = x.cpu()
    x[:, ::2].copy_(torch.zeros(4, 3))
    assert x.cpu()[:, 1::2].equal(before[:, 1::2])
    assert not x.cpu()[:, ::2].any()


def test_numbers_that_are_only_seen_conjugated_or_negated() -> None:
    x = torch.randn(3, 4, dtype=torch.complex64)
    there = x.to("ocl")
    assert there.conj().cpu().equal(x.conj())
    assert there.conj().imag.cpu().equal(x.conj().imag)
    assert (there.conj() * 2).cpu().equal(x.conj() * 2)
    for y in (x, there):
        y.conj()[1].copy_(torch.full((4,), 1 + 2j))
        y.conj().imag[2].fill_(3)
    assert there.cpu().equal(x)


def test_complex_numbers_in_compiled_graphs() -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (a * b).abs(), a.conj(), a @ b, torch.fft.fft(a), torch.view_as_real(b) + 1

    inputs = [torch.randn(6, 6, dtype=torch.complex64) for _ in range(2)]
    counters["opencl"].clear()
    function = torch.compile(program, backend="opencl")
    for _ in range(2):
        results = function(*(x.to("ocl") for x in inputs))
        for ours, right in zip(results, program(*inputs), strict=True):
            assert ours.device.type == "ocl" and ours.is_conj() == right.is_conj()
            torch.testing.assert_close(ours.cpu(), right)
    assert counters["opencl"]["fallbacks"] == 0


def test_a_number_beside_integers_has_the_default_dtype() -> None:
    x = torch.arange(4)
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert (x.to("ocl") * 0.5).dtype == dtype
            assert (x.to("ocl") * 0.5).cpu().equal(x * 0.5)
        finally:
            torch.set_default_dtype(torch.float32)


def test_out_and_resize() -> None:
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    out = torch.empty(3, 4, device="ocl")
    assert torch.add(a.to("ocl"), b.to("ocl"), out=out) is out
    torch.testing.assert_close(out.cpu(), a + b)
    grown = torch.arange(3.0, device="ocl")
    grown.resize_(5)
    assert grown.cpu()[:3].equal(torch.arange(3.0))


def test_a_number_with_a_sign_of_its_own() -> None:
    x = torch.ones(4, device="ocl")
    x.fill_(0.0)
    assert not torch.signbit(x.cpu()).any()
    x.fill_(-0.0)
    assert torch.signbit(x.cpu()).all()


def test_operators_one_by_one() -> None:
    x, y = torch.randn(4, 6), torch.rand(6)
    functions: tuple[Callable[..., Tensor], ...] = (
        lambda a, b: a * b - a.sum(1, keepdim=True),
        lambda a, b: F.layer_norm(a, (6,), b),
        lambda a, b: a.softmax(-1).cumsum(0),
        lambda a, b: torch.where(a > b, a, b).sort(-1).values,
        lambda a, b: a @ a.t(),
        lambda a, b: a.clone().addcmul_(a, a, value=0.5).lerp_(a, 0.25),
        lambda a, b: a.masked_select(a > 0),
        lambda a, b: torch.cat([a, b[None]]).amax(0),
    )
    for function in functions:
        found = function(x.to("ocl"), y.to("ocl"))
        assert found.device.type == "ocl"
        torch.testing.assert_close(found.cpu(), function(x, y))
    if LAZY:
        assert counters["opencl"]["lazy_graphs"] > 0
    elif DISCRETE:
        assert counters["opencl"]["eager_compiled"] > 0


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(8 * 64, 10)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.body(x)), target, label_smoothing=0.1)


def test_a_training_step_moves_only_its_batch() -> None:
    model = Small()
    wide = copy.deepcopy(model).double()
    model.to("ocl")
    step = compiled(model)
    rates = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, wide)]
    for k in range(4):
        x, target = torch.randn(4, 3, 8, 8), torch.randint(10, (4,))
        there = x.to("ocl"), target.to("ocl")
        before = moved()
        loss = step(*there)
        assert isinstance(loss, Tensor)
        loss.backward()
        assert k == 0 or moved() == before
        expected = wide(x.double(), target)
        expected.backward()
        assert loss.device.type == "ocl"
        torch.testing.assert_close(loss.cpu().double(), expected, rtol=1e-4, atol=1e-5)
        for p, q in zip(model.parameters(), wide.parameters(), strict=True):
            assert p.grad is not None
            assert p.grad.device.type == "ocl"
            torch.testing.assert_close(p.grad.cpu().double(), q.grad, rtol=1e-3, atol=1e-5)
        for rate in rates:
            rate.step()
            rate.zero_grad()
    torch.testing.assert_close(
        model.body[1].running_var.cpu().double(), wide.body[1].running_var, rtol=1e-4, atol=1e-5
    )


def test_a_compiled_optimiser_keeps_its_state_there() -> None:
    model = nn.Linear(8, 8).to("ocl")
    wide = copy.deepcopy(model).cpu().double()
    rate = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    slow = torch.optim.SGD(wide.parameters(), lr=0.1, momentum=0.9)
    step = compiled(rate.step)
    for _ in range(3):
        x = torch.randn(4, 8)
        model(x.to("ocl")).square().mean().backward()
        wide(x.double()).square().mean().backward()
        step()
        slow.step()
        rate.zero_grad()
        slow.zero_grad()
    torch.testing.assert_close(model.weight.cpu().double(), wide.weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", ["data", "no_grad", "load", "fused"])
def test_weights_that_change_are_seen(how: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 4))
    model.eval().to("ocl")
    call = compiled(model)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        call(x.to("ocl"))
        call(x.to("ocl"))
        weight = model[0].weight
        match how:
            case "data":
                weight.data.mul_(2)
            case "no_grad":
                weight.mul_(2)
            case "load":
                state = {k: v * 2 for k, v in model.state_dict().items() if v.is_floating_point()}
                model.load_state_dict(state, strict=False)
            case "fused":
                weight.grad = torch.randn(weight.shape).to("ocl")
                torch.optim.SGD([weight], lr=0.5, fused=True).step()
        found = call(x.to("ocl"))
        wide = copy.deepcopy(model).cpu().double()
        assert isinstance(found, Tensor)
        torch.testing.assert_close(found.cpu().double(), wide(x.double()), rtol=1e-3, atol=1e-4)


def test_results_and_arguments_of_both_kinds() -> None:
    def function(x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        y = x * scale
        return y, y.sum().cpu()

    x = torch.randn(5)
    here, home = compiled(function)(x.to("ocl"), torch.tensor(3.0))  # type: ignore[misc]
    assert (here.device.type, home.device.type) == ("ocl", "cpu")
    torch.testing.assert_close(here.cpu(), x * 3)
    torch.testing.assert_close(home, (x * 3).sum())


def test_cpu_tensors_that_are_written() -> None:
    def function(x: Tensor, count: Tensor) -> Tensor:
        count.add_(1)
        return x * count

    x, count = torch.randn(4), torch.tensor(1.0)
    there, call = x.to("ocl"), compiled(function)
    for n in (2, 3, 4):
        found = call(there, count)
        assert isinstance(found, Tensor)
        assert found.device.type == "ocl"
        torch.testing.assert_close(found.cpu(), x * n)
        assert count.item() == n


def test_a_compiled_adam_counts_its_steps_on_the_cpu() -> None:
    model = nn.Linear(8, 8).to("ocl")
    wide = copy.deepcopy(model).cpu().double()
    rates = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (model, wide)]
    step = torch.compile(rates[0].step, backend="opencl")
    for _ in range(4):
        x = torch.randn(4, 8)
        model(x.to("ocl")).square().mean().backward()
        wide(x.double()).square().mean().backward()
        step()
        rates[1].step()
        for rate in rates:
            rate.zero_grad()
    torch.testing.assert_close(model.weight.cpu().double(), wide.weight, rtol=1e-4, atol=1e-5)


def test_sizes_of_data_and_a_tensor_made_of_them() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        kept = x[x > 0]
        return kept.exp(), torch.zeros(kept.shape[0], device=x.device)

    x = torch.randn(9)
    for found, expected in zip(
        torch.compile(function, backend="opencl")(x.to("ocl")), function(x), strict=True
    ):
        assert found.device.type == "ocl"
        torch.testing.assert_close(found.cpu(), expected)


def test_inputs_that_are_written() -> None:
    def function(x: Tensor) -> Tensor:
        x.mul_(2)
        return x.sum()

    x = torch.randn(6)
    there = x.to("ocl")
    total = compiled(function)(there)
    assert isinstance(total, Tensor)
    torch.testing.assert_close(there.cpu(), x * 2)
    torch.testing.assert_close(total.cpu(), (x * 2).sum())


def test_operators_without_a_lowering_and_sizes_of_data() -> None:
    def function(x: Tensor) -> Tensor:
        values = torch.linalg.svdvals(x)
        return values[values > 0.5] * 2

    x = torch.randn(6, 6)
    call = torch.compile(function, backend="opencl")
    for _ in range(2):
        found = call(x.to("ocl"))
        assert found.device.type == "ocl"
        torch.testing.assert_close(found.cpu(), function(x), rtol=1e-4, atol=1e-4)


def test_sizes_that_change() -> None:
    call = torch.compile(lambda x: x.softmax(-1) * 2, backend="opencl", dynamic=True)
    for n in (3, 7, 64, 5):
        x = torch.randn(n, n + 1)
        torch.testing.assert_close(call(x.to("ocl")).cpu(), x.softmax(-1) * 2)


def test_dropout_repeats_by_its_seed() -> None:
    call = compiled(lambda x: F.dropout(x, 0.5))
    x = torch.ones(1000).to("ocl")
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        found = call(x)
        assert isinstance(found, Tensor)
        results.append(found.cpu())
    assert results[0].equal(results[1])
    assert not results[0].equal(results[2])
    assert 400 < int((results[0] == 0).sum()) < 600


def test_an_index_out_of_range() -> None:
    call = compiled(lambda table, index: F.embedding(index, table))
    table = torch.randn(5, 4).to("ocl")
    with pytest.raises(IndexOutOfRangeError):
        call(table, torch.tensor([1, 7]).to("ocl"))
    found = call(table, torch.tensor([1, 4]).to("ocl"))
    assert isinstance(found, Tensor)
    assert found.cpu().equal(table.cpu()[[1, 4]])


def test_modules_that_move() -> None:
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    b.weight = a.weight
    model = nn.Sequential(a, b)
    rate = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("ocl")
    assert a.weight is b.weight
    assert rate.param_groups[0]["params"][0] is a.weight
    assert a.weight.device.type == "ocl"
    twin = copy.deepcopy(model)
    assert twin[0].weight is twin[1].weight
    model.cpu()
    assert a.weight is b.weight
    assert a.weight.equal(twin[0].weight.cpu())


def test_modules_that_move_before_they_have_a_size() -> None:
    model = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d())
    weight = model[0].weight
    model.to("ocl")
    assert model[0].weight is weight
    assert weight.device.type == "ocl"
    x = torch.randn(2, 3, 8)
    model(x.to("ocl")).sum().backward()
    assert weight.shape == (4, 3, 3)
    assert weight.grad is not None
    twin = copy.deepcopy(model).cpu()
    torch.testing.assert_close(model(x.to("ocl")).cpu(), twin(x))
