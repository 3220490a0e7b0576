"""What programs do with a device beside operators: autocast, generators, streams, pinned memory.

Run by ``test_ocl.py``, in a process of its own.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

import ocl_inductor.eager  # noqa: F401  (makes the device)
from ocl_inductor.eager.interface import autocast
from ocl_inductor.support.torch_versions import storages_take_memory

HALF = (torch.float16, torch.bfloat16)
#: Of results in half types, against float64.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def compiled(function):  # type: ignore[no-untyped-def]
    return torch.compile(function, backend="opencl", fullgraph=True)


# -- autocast ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("through", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_products_in_half_types_and_norms_in_float(dtype, through) -> None:  # type: ignore[no-untyped-def]
    x = torch.randn(6, 16, device="ocl")
    linear, norm = nn.Linear(16, 8).to("ocl"), nn.LayerNorm(8).to("ocl")

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("ocl", dtype=dtype):
            y = linear(x)
            return y, y.relu(), norm(y), torch.softmax(y, -1), y + x[:, :8], y.sum()

    found = through(run)(x)
    assert [y.dtype for y in found] == [dtype, dtype, *[torch.float32] * 4]
    wide = copy.deepcopy(linear).cpu().double()(x.cpu().double())
    for y, expected in zip(
        found, (wide, wide.relu(), None, wide.softmax(-1), wide + x.cpu()[:, :8]), strict=False
    ):
        if expected is not None:
            atol = TOLERANCE[dtype]
            torch.testing.assert_close(y.cpu().double(), expected, rtol=atol, atol=atol)


def test_a_recurrent_layer_has_one_type_eagerly_and_compiled() -> None:
    layer, x = nn.LSTM(4, 6).to("ocl"), torch.randn(3, 2, 4, device="ocl")

    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("ocl", dtype=torch.bfloat16):
            return layer(x)[0]

    found = torch.compile(run, backend="opencl")(x)  # the graph breaks at the layer
    expected = run(x)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found.float().cpu(), expected.float().cpu(), rtol=2e-2, atol=2e-2)


def test_the_widest_and_the_types_that_stay() -> None:
    x = torch.randn(4, 4, device="ocl")
    half, double = x.half(), x.double()
    with torch.autocast("ocl", dtype=torch.float16):
        assert torch.cat((half, x)).dtype == torch.float32
        assert torch.cat((half, half)).dtype == torch.float16
        assert (double @ double).dtype == torch.float64
        assert torch.exp(half).dtype == torch.float32
        assert half.sum(dtype=torch.float16).dtype == torch.float16
        with torch.autocast("ocl", enabled=False):
            assert (x @ x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid())
    assert (x @ x).dtype == torch.float32


def test_each_name_is_an_operator_and_in_one_list() -> None:
    lists = (
        autocast.IN_HALF,
        autocast.IN_FLOAT,
        autocast.IN_FLOAT_BY_DEFAULT,
        autocast.IN_THE_WIDEST,
    )
    names = [name for names in lists for name in names]
    assert len(set(names)) == len(names)
    absent = [n for n in names if autocast.aten_overload(n) is None]
    assert absent == []


@pytest.mark.parametrize("through", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_training_in_mixed_precision(through) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 3))
    wide = copy.deepcopy(model).double()
    model = model.to("ocl")
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    exact = torch.optim.SGD(wide.parameters(), 0.05)
    scaler = torch.amp.GradScaler("ocl", init_scale=256.0)
    x, y = torch.randn(16, 12), torch.randint(0, 3, (16,))

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("ocl", dtype=torch.bfloat16):
            return nn.functional.cross_entropy(model(x), y)

    call = through(loss_of)
    for _ in range(4):
        optimiser.zero_grad()
        loss = call(x.to("ocl"), y.to("ocl"))
        assert loss.dtype == torch.float32
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        exact.zero_grad()
        expected = nn.functional.cross_entropy(wide(x.double()), y)
        expected.backward()
        exact.step()
        torch.testing.assert_close(loss.cpu().double(), expected, rtol=2e-2, atol=2e-2)
    assert all(p.dtype == torch.float32 for p in model.parameters())


# -- random numbers ----------------------------------------------------------------------------


def test_generators() -> None:
    one, other = torch.Generator(device="ocl"), torch.Generator("ocl:0")
    assert one.device == torch.device("ocl", 0)
    assert isinstance(one, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device.type == "cpu"
    for g in (one, other):
        g.manual_seed(5)
    drawn = [torch.randn(7, device="ocl", generator=g) for g in (one, other)]
    torch.testing.assert_close(drawn[0], drawn[1], rtol=0, atol=0)
    state = one.get_state()
    first = torch.empty(5, device="ocl").uniform_(generator=one)
    one.set_state(state)
    torch.testing.assert_close(torch.rand(5, device="ocl", generator=one), first, rtol=0, atol=0)
    assert not torch.equal(torch.rand(5, device="ocl", generator=one), first)
    before = torch.get_rng_state()
    torch.randperm(9, device="ocl", generator=one)
    assert torch.equal(torch.get_rng_state(), before)
    nn.init.trunc_normal_(torch.empty(5, 5, device="ocl"), generator=one)


def test_a_permutation_of_a_seed_is_that_of_the_host() -> None:
    """In either kind of memory, and however many lengths there were before."""
    for n in range(1, 11):
        torch.randperm(n, device="ocl")
    torch.manual_seed(4)
    found = torch.randperm(11, device="ocl")
    torch.manual_seed(4)
    assert torch.equal(found.cpu(), torch.randperm(11))


# -- streams, events, memory -------------------------------------------------------------------


def test_streams_and_events() -> None:
    stream = torch.ocl.Stream()
    assert stream == torch.ocl.current_stream() == torch.ocl.default_stream()
    begin, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    x = torch.randn(64, 64, device="ocl")
    with torch.ocl.stream(stream):
        begin.record()
        y = x @ x
        end.record(stream)
    stream.wait_stream(torch.ocl.current_stream())
    end.synchronize()
    assert end.query()
    assert 0 < begin.elapsed_time(end) < 60_000
    assert end.elapsed_time(begin) < 0
    stream.synchronize()
    assert stream.query()
    torch.testing.assert_close(y.cpu(), x.cpu() @ x.cpu(), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="enable_timing"):
        torch.ocl.Event().elapsed_time(end)
    with pytest.raises(ValueError, match="recorded"):
        begin.elapsed_time(torch.ocl.Event(enable_timing=True))


def test_a_summary_of_memory() -> None:
    torch.ocl.reset_peak_memory_stats()
    x = torch.zeros(3 << 18, device="ocl")
    torch.ocl.synchronize()  # a lazy one has its memory then
    assert torch.ocl.max_memory_reserved() >= torch.ocl.memory_reserved() >= x.nbytes
    text = torch.ocl.memory_summary()
    assert "held by tensors" in text
    assert f"{torch.ocl.memory_allocated() / 2**20:.1f}" in text


def test_batches_of_pinned_memory() -> None:
    values = torch.randn(8, 3)
    data = torch.utils.data.TensorDataset(values, torch.arange(8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
    found = torch.cat([x.to("ocl", non_blocking=True).cpu() for x, _ in loader])
    torch.testing.assert_close(found, values, rtol=0, atol=0)
    copied = values.pin_memory()
    assert copied.data_ptr() != values.data_ptr()
    assert torch.equal(copied, values)
    turned = values.t().pin_memory()
    assert turned.stride() == values.t().stride()


# -- modules and errors ------------------------------------------------------------------------


@pytest.mark.parametrize("through", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind, bias, through) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(1)
    model = kind(5, 7, num_layers=2, bidirectional=True, bias=bias)
    wide = copy.deepcopy(model).double()
    x = torch.randn(4, 3, 5)
    there = x.to("ocl").requires_grad_()
    exact = x.double().requires_grad_()
    model = model.to("ocl")
    found, _ = through(model)(there)
    expected, _ = wide(exact)
    torch.testing.assert_close(
        found.detach().cpu().double(), expected.detach(), rtol=1e-4, atol=1e-5
    )
    weight = torch.randn(expected.shape)
    (found * weight.to("ocl")).sum().backward()
    (expected * weight.double()).sum().backward()
    assert there.grad is not None and exact.grad is not None
    torch.testing.assert_close(there.grad.cpu().double(), exact.grad, rtol=1e-4, atol=1e-5)
    for p, q in zip(model.parameters(), wide.parameters(), strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad.cpu().double(), q.grad, rtol=1e-4, atol=1e-4)


def test_cells_and_packed_sequences() -> None:
    for cell in (nn.LSTMCell(4, 6), nn.GRUCell(4, 6), nn.RNNCell(4, 6)):
        x = torch.randn(3, 4)
        expected = copy.deepcopy(cell).double()(x.double())
        found = cell.to("ocl")(x.to("ocl"))
        pairs = zip(found, expected, strict=True)
        for y, z in pairs if isinstance(found, tuple) else [(found, expected)]:
            torch.testing.assert_close(y.detach().cpu().double(), z.detach(), rtol=1e-4, atol=1e-5)
    model, x = nn.LSTM(4, 6, batch_first=True), torch.randn(3, 5, 4)
    lengths = torch.tensor([5, 3, 2])
    packed = nn.utils.rnn.pack_padded_sequence(x.double(), lengths, batch_first=True)
    expected = copy.deepcopy(model).double()(packed)[0].data
    there = nn.utils.rnn.pack_padded_sequence(x.to("ocl"), lengths, batch_first=True)
    found = model.to("ocl")(there)[0].data
    torch.testing.assert_close(
        found.detach().cpu().double(), expected.detach(), rtol=1e-4, atol=1e-5
    )


def test_two_devices_in_one_operator() -> None:
    x, y = torch.randn(8, 8, device="ocl"), torch.randn(8, 8)
    for call in (
        lambda: x + y,
        lambda: y * x,
        lambda: x @ y,
        lambda: torch.cat((x, y)),
        lambda: x.add_(y),
        lambda: torch.where(x > 0, x, y),
        lambda: nn.functional.linear(x, y),
        lambda: torch.addmm(x, y, x),
    ):
        with pytest.raises(RuntimeError, match="at least two devices"):
            call()
    torch.testing.assert_close((x + torch.tensor(2.0)).cpu(), x.cpu() + 2)
    index = torch.tensor([1, 5])
    torch.testing.assert_close(x[index].cpu(), x.cpu()[index])
    x[index] = 3.0
    assert bool((x.cpu()[index] == 3).all())
    torch.testing.assert_close(x.copy_(y).cpu(), y)


def test_a_layer_in_another_process_and_back() -> None:
    layer = nn.Linear(3, 3).to("ocl")
    again = pickle.loads(pickle.dumps(layer))
    assert again.weight.device.type == "ocl"
    torch.testing.assert_close(again.weight.cpu(), layer.weight.cpu(), rtol=0, atol=0)


def test_a_default_device_is_the_programs_and_not_ours() -> None:
    """Tensors that the runtime makes on the host stay there: for operators that run on it, for
    seeds, for transfers."""
    x = torch.randn(6, 8)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.linalg.svdvals(x.square()), torch.nn.functional.dropout(x, 0.5)

    def with_own(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return *function(x), torch.arange(8) + x[0]

    # Dynamo of 2.11 makes the program's own tensor on the CPU there, also with backend="eager".
    knows_default = storages_take_memory()
    for device, inside, called in (
        ("ocl", "ocl", with_own if knows_default else function),
        ("cpu", "cpu", with_own),
        ("cpu", "meta", function),
    ):
        torch._dynamo.reset()
        given = x.to(device)
        with torch.device(inside):
            found = torch.compile(called, backend="opencl", options={"cache": False})(given)
        assert {y.device.type for y in found} == {device}
        values, kept, *own = (y.cpu() for y in found)
        close = torch.testing.assert_close
        close(values, torch.linalg.svdvals(x.square()), rtol=1e-4, atol=1e-4)
        close(kept, torch.where(kept == 0, kept, 2 * x))
        assert 0 < kept.count_nonzero() < kept.numel()
        for y in own:
            close(y, torch.arange(8) + x[0])


TRANSFORMS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.func.hessian(lambda x: (x.sin() * x**3).sum()),
    torch.func.jacfwd(lambda x: x.outer(x) ** 2),
    torch.func.jacrev(lambda x: x.cumsum(0) * x),
    torch.func.vmap(torch.func.grad(lambda x: x.exp() * x)),
    lambda x: torch.func.jvp(lambda x: x.tanh(), (x,), (torch.ones_like(x),))[1],
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_function_transforms(transform: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(3)
    found = transform(x.to("ocl"))
    assert found.device.type == "ocl"
    exact = transform(x.double())
    torch.testing.assert_close(found.cpu().double(), exact, rtol=1e-5, atol=1e-6)
