"""What ``test_ocl.py`` runs in a process of its own: tensors on ``ocl:0`` and ``ocl:1``.

``ocl:0`` and whether memory is the host's or the devices' own come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY; ``ocl:1`` is the first of the others.
"""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

import ocl_inductor.eager  # noqa: F401  (`ocl` is a device from here on)
from ocl_inductor.device.select import list_devices, select_device
from ocl_inductor.errors import NoSuchPlaceError
from ocl_inductor.resident.places import place
from ocl_inductor.support.torch_versions import storages_take_memory

FIRST, SECOND = "ocl:0", "ocl:1"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)


def test_the_order_of_devices() -> None:
    assert place() is select_device(os.environ["OCL_INDUCTOR_DEVICE"])
    others = [d for d in list_devices() if d is not place()]
    assert [place(n) for n in range(1, torch.ocl.device_count())] == others
    assert torch.ocl.get_device_name(1) == others[0].names.name
    with pytest.raises(NoSuchPlaceError, match="no device ocl:99: ocl:0 is"):
        torch.ones(3, device="ocl:99")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_copies_between_devices(dtype: torch.dtype) -> None:
    x = torch.randn(5, 7).mul(3).to(dtype)
    here = x.to(FIRST)
    there = here.to(SECOND)
    assert there.device == torch.device(SECOND) and there.cpu().equal(x)
    assert there.to(FIRST, non_blocking=True).cpu().equal(x)
    assert here.T.to(SECOND).cpu().equal(x.T)
    assert here.to(SECOND, torch.float32).cpu().equal(x.float())
    target = torch.zeros(2, 5, 14, device=SECOND, dtype=torch.float32)
    target[:, :, ::2].copy_(here)  # broadcast, converted, and into every other column
    assert target[1, :, ::2].cpu().equal(x.float()) and not target[:, :, 1::2].any()


def test_complex_numbers_and_no_elements() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    assert z.to(FIRST).conj().to(SECOND).cpu().resolve_conj().equal(z.conj().resolve_conj())
    assert torch.empty(0, 3, device=FIRST).to(SECOND).shape == (0, 3)


MAKERS: list[Callable[[str], torch.Tensor]] = [
    lambda d: torch.arange(7, device=d),
    lambda d: torch.full((3,), 2.5, device=d),
    lambda d: torch.tril_indices(4, 3, device=d),
    lambda d: torch.eye(3, device=d),
    lambda d: torch.tensor([1.5, 2.0], device=d),
    lambda d: torch.linspace(0, 1, 5, device=d),
    lambda d: torch.ones(2, 3, device=d, dtype=torch.bfloat16),
]


@pytest.mark.parametrize("make", MAKERS)
def test_new_tensors(make: Callable[[str], torch.Tensor]) -> None:
    made = make(SECOND)
    assert made.device == torch.device(SECOND) and made.cpu().equal(make("cpu"))


OPERATORS: list[Callable[..., torch.Tensor]] = [
    lambda x, y: x * 2.5 + y,
    lambda x, y: x * 3.5 + y,  # another number of the same operator
    lambda x, y: x @ y.T,
    lambda x, y: x.softmax(1) * y.sum(0, keepdim=True),
    lambda x, y: torch.add(x, y, out=torch.empty(0, device=x.device, dtype=x.dtype)),
    lambda x, y: x.clone().clamp_(-0.5, 0.5).index_fill_(1, torch.tensor([0], device=x.device), 1),
    lambda x, y: torch.cat((x, y)).sort(0).values,
    lambda x, y: x[x > 0].cumsum(0),
    lambda x, y: torch.linalg.qr(x.T @ x + torch.eye(6, device=x.device, dtype=x.dtype))[1].abs(),
    lambda x, y: x + torch.tensor(2.0, dtype=x.dtype),  # a number on the CPU
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator: Callable[..., torch.Tensor]) -> None:
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    exact = operator(x.double(), y.double())
    for device in (FIRST, SECOND, FIRST):
        found = operator(x.to(device), y.to(device))
        assert found.device == torch.device(device)
        torch.testing.assert_close(found.cpu().double(), exact, rtol=1e-5, atol=1e-5)


def test_tensors_of_both_in_one_operator() -> None:
    x, y = torch.ones(3, device=FIRST), torch.ones(3, device=SECOND)
    for call in (lambda: x + y, lambda: torch.cat((y, x)), lambda: y.add_(x), lambda: x.equal(y)):
        with pytest.raises(RuntimeError, match=r"two devices, ocl:[01] and ocl:[01]"):
            call()
    number = torch.tensor(2.0, device=FIRST)
    with pytest.raises(RuntimeError, match="same device"):
        y * number


class Pipeline(nn.Module):
    """Its first layer on one device, its second on the other one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x.to(self.first.weight.device)))
        return self.second(hidden.to(self.second.weight.device))  # type: ignore[no-any-return]


def _losses(model: nn.Module, batch: torch.Tensor, steps: int = 4) -> list[float]:
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def test_training() -> None:
    model, batch = Pipeline(), torch.randn(5, 6)
    exact = _losses(copy.deepcopy(model).double(), batch.double())
    on_second = copy.deepcopy(model).to(SECOND)
    assert _losses(on_second, batch) == pytest.approx(exact, rel=1e-5)
    over_both = copy.deepcopy(model)
    over_both.first.to(FIRST)
    over_both.second.to(SECOND)
    assert _losses(over_both, batch) == pytest.approx(exact, rel=1e-5)
    assert over_both.first.weight.grad.device == torch.device(FIRST)
    assert over_both.second.weight.grad.device == torch.device(SECOND)


def test_an_optimiser_goes_on_where_its_model_moves() -> None:
    model = nn.Linear(4, 4).to(FIRST)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    model.to(SECOND)
    model(torch.ones(2, 4, device=SECOND)).sum().backward()
    before = model.bias.detach().cpu()
    optimiser.step()
    torch.testing.assert_close(model.bias.detach().cpu(), before - 0.5 * 2)


def test_gradients_of_gradients_and_checkpoints() -> None:
    x = torch.tensor([0.3, -1.2], device=SECOND, requires_grad=True)
    (first,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second.cpu(), 6 * x.detach().cpu())
    layer = nn.Sequential(nn.Linear(2, 64), nn.Dropout(0.5)).to(SECOND)
    gradients = []
    for call in (layer, lambda x: checkpoint(layer, x, use_reentrant=False)):
        torch.manual_seed(1)
        layer.zero_grad()
        (found,) = torch.autograd.grad(call(x).sum(), x)
        gradients.append(found.cpu())
    assert gradients[0].equal(gradients[1]) and gradients[0].all()


def test_compiled_functions() -> None:
    model, batch = Pipeline(), torch.randn(5, 6)
    exact = _losses(copy.deepcopy(model).double(), batch.double())
    there = copy.deepcopy(model).to(SECOND)
    compiled = torch.compile(there, backend="opencl", options={"fallback": "error"}, fullgraph=True)
    assert _losses(compiled, batch.to(SECOND)) == pytest.approx(exact, rel=1e-5)
    assert counters["opencl"]["kernels"] > 0 and not counters["opencl"]["fallbacks"]
    assert there.first.weight.device == torch.device(SECOND)


def test_one_function_on_each_device() -> None:
    function = torch.compile(
        lambda x: (x @ x).relu() + torch.ones(3, device=x.device), backend="opencl"
    )
    x = torch.randn(3, 3)
    exact = (x.double() @ x.double()).relu() + 1
    for device in (FIRST, SECOND, FIRST):
        found = function(x.to(device))
        assert found.device == torch.device(device)
        torch.testing.assert_close(found.cpu().double(), exact, rtol=1e-5, atol=1e-5)


def test_a_graph_over_both_devices() -> None:
    """It is left to eager, which says so."""
    model, batch = Pipeline(), torch.randn(5, 6)
    with torch.no_grad():
        expected = model(batch)
    model.first.to(FIRST)
    model.second.to(SECOND)
    found = torch.compile(model, backend="opencl")(batch.to(FIRST))
    torch.testing.assert_close(found.cpu(), expected)
    torch._dynamo.reset()
    refused = torch.compile(model, backend="opencl", options={"fallback": "error"})
    with pytest.raises(Exception, match="a graph runs on one device, not on ocl:0 and ocl:1"):
        refused(batch.to(FIRST))


def test_the_option_that_names_a_device() -> None:
    call = torch.compile(
        lambda x: x + 1, backend="opencl", options={"device": place(0).short_name + ":0"}
    )
    with pytest.raises(Exception, match="OtherDeviceError: The tensors are on ocl"):
        call(torch.ones(3, device=SECOND))


def test_the_current_device() -> None:
    assert torch.ocl.current_device() == 0
    with torch.ocl.device(1):
        assert torch.ocl.current_device() == 1
        for made in (torch.empty(3, device="ocl"), torch.ones(3).ocl(), torch.eye(2, device="ocl")):
            assert made.device == torch.device(SECOND)
        assert torch.tril_indices(2, 2, device="ocl").device == torch.device(SECOND)
        assert torch.ocl.current_stream().device == torch.device(SECOND)
    assert torch.ocl.current_device() == 0
    assert torch.ones(3, device="ocl").device == torch.device(FIRST)


def test_memory_and_events_of_each() -> None:
    torch.ocl.empty_cache()
    before = torch.ocl.memory_allocated(0), torch.ocl.memory_allocated(1)
    x = torch.ones(1 << 18, device=SECOND)
    assert torch.ocl.memory_allocated(1) == before[1] + (1 << 20)
    assert torch.ocl.memory_allocated(0) == before[0]
    event = torch.ocl.Stream(1).record_event()
    event.synchronize()
    assert event.query()
    torch.ocl.synchronize(1)
    del x
    torch.ocl.empty_cache()
    assert torch.ocl.memory_allocated(1) == before[1]


def test_saving_and_loading() -> None:
    x = torch.randn(3, 4)
    file = io.BytesIO()
    torch.save(x.to(SECOND), file)
    for location, device in ((None, SECOND), (FIRST, FIRST), ("cpu", "cpu")):
        file.seek(0)
        found = torch.load(file, map_location=location)
        assert found.device == torch.device(device) and found.cpu().equal(x)
    again = copy.deepcopy(x.to(SECOND))
    assert again.device == torch.device(SECOND) and again.cpu().equal(x)


def test_random_numbers_are_the_same() -> None:
    found = []
    for device in (FIRST, SECOND):
        torch.manual_seed(3)
        drawn = torch.rand(4, device=device), nn.functional.dropout(torch.ones(9, device=device))
        given = torch.randn(4, device=device, generator=torch.Generator(device).manual_seed(5))
        found.append([x.cpu() for x in (*drawn, given)])
    assert all(x.equal(y) for x, y in zip(*found, strict=True))


@pytest.mark.skipif(not storages_take_memory(), reason="this PyTorch has no lazy mode on ocl")
def test_lazy_mode_is_that_of_the_first() -> None:
    x = torch.randn(4, 5)
    with torch.ocl.lazy():
        here = x.to(FIRST) @ x.T.to(FIRST)
        there = here.to(SECOND) * 2  # the product is computed for this
        made = torch.full((4, 4), 3.0, device=SECOND) + there
        back = made.to(FIRST) + here
        found = back.cpu()
    exact = x.double() @ x.T.double()
    torch.testing.assert_close(found.double(), exact * 3 + 3, rtol=1e-5, atol=1e-5)
    assert made.device == torch.device(SECOND) and back.device == torch.device(FIRST)
