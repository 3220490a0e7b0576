"""What a forward graph saves: no result that the backward graph has what it takes to compute, and a
byte for each window of max pooling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from agreement import compiled, poisoned_memory, random, two_drivers
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.operators.max_pool import ops

aten = torch.ops.aten
each_driver = pytest.mark.parametrize("driver", two_drivers())


def gradients(
    fn: Callable[..., Any], inputs: Sequence[Tensor], weights: Sequence[Tensor] = ()
) -> tuple[Tensor, ...]:
    """Of a random sum of the results, by the inputs and weights; and the results."""
    given = [x.detach().clone().requires_grad_() for x in inputs]
    result = fn(*given)
    results = result if isinstance(result, tuple) else (result,)
    seen = [r for r in results if r.is_floating_point()]
    total = sum((r * random(*r.shape, dtype=r.dtype, seed=n)).sum() for n, r in enumerate(seen))
    found = torch.autograd.grad(total, [*given, *weights])
    return (*[r.detach() for r in results], *found)


def saved(fn: Callable[..., Any], *inputs: Tensor) -> list[Tensor]:
    """What a call keeps for its backward, but the inputs themselves."""
    found: dict[int, Tensor] = {}

    def pack(t: Tensor) -> Tensor:
        found[t.untyped_storage()._cdata] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        fn(*inputs)
    given = {x.untyped_storage()._cdata for x in inputs}
    return [t for key, t in found.items() if key not in given and not isinstance(t, nn.Parameter)]


WINDOWS: tuple[tuple[Any, ...], ...] = (
    (2, 2, 0, False),
    (3, 2, 1, False),
    (3, 2, 1, True),
    (3, 1, 1, False),
    (2, 3, 1, False),
    ((3, 2), (1, 2), (1, 0), True),
    (5, 1, 2, False),
    (7, 2, 3, False),  # too large for offsets
)


# -- max pooling ---------------------------------------------------------------------------------


@each_driver
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_gradients_of_max_pooling(
    driver: str, windows: tuple[Any, ...], dtype: torch.dtype
) -> None:
    """With NaN, with windows that are -inf throughout, and with equal values (behind the ReLU)."""
    kernel, stride, padding, ceil_mode = windows

    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        pooled = F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil_mode)
        return pooled, F.max_pool2d(x.relu(), kernel, stride, padding, ceil_mode=ceil_mode)

    x = random(2, 3, 13, 17).to(dtype)
    x[0, 0] = -torch.inf
    x[0, 1, 3] = torch.nan
    half = dtype is torch.bfloat16  # eager rounds it after each window that is added
    expected = gradients(fn, [x.float() if half else x])
    with poisoned_memory():
        found = gradients(compiled(fn, driver), [x])
    atol, rtol = (0.05, 0.02) if half else (1e-5, 1e-5)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.to(b.dtype), b, equal_nan=True, atol=atol, rtol=rtol)


@each_driver
def test_three_dimensions_and_one(driver: str) -> None:
    for fn, size in (
        (lambda x: F.max_pool3d(x, (2, 3, 2), 2, (1, 1, 0)), (2, 3, 6, 8, 7)),
        (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 19)),
        (lambda x: F.max_pool2d(x, 2), (3, 8, 9)),
    ):
        torch.compiler.reset()
        x = random(*size)
        for a, b in zip(gradients(compiled(fn, driver), [x]), gradients(fn, [x]), strict=True):
            torch.testing.assert_close(a, b)


@each_driver
def test_sizes_that_change(driver: str) -> None:
    def fn(x: Tensor) -> Tensor:
        return F.max_pool2d(x.relu(), 3, 2, 1)

    function = compiled(fn, driver, dynamic=True)
    for n in (13, 20, 31):
        x = random(2, 3, n, n + 3)
        for a, b in zip(gradients(function, [x]), gradients(fn, [x]), strict=True):
            torch.testing.assert_close(a, b)


@each_driver
def test_positions_that_the_caller_gets(driver: str) -> None:
    def fn(x: Tensor) -> tuple[Tensor, ...]:
        values, positions = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(values * 2, positions, 2), positions

    x = random(2, 3, 8, 10)
    for a, b in zip(gradients(compiled(fn, driver), [x]), gradients(fn, [x]), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("n", [2, 3])
def test_on_the_host(n: int) -> None:
    pool = (aten.max_pool2d_with_indices, aten.max_pool3d_with_indices)[n - 2]
    back = (aten.max_pool2d_with_indices_backward, aten.max_pool3d_with_indices_backward)[n - 2]
    x = random(2, 3, *(9, 11, 7)[:n])
    for kernel, stride, padding, ceil_mode in itertools.product((2, 3), (1, 2), (0, 1), (0, 1)):
        windows = [kernel] * n, [stride] * n, [padding] * n
        values, positions = pool(x, *windows, 1, bool(ceil_mode))
        mine, offsets = ops.max_pool(x, *windows, bool(ceil_mode))
        assert torch.equal(mine, values) and offsets.dtype is torch.int8
        gradient = random(*values.shape)
        expected = back(gradient, x, *windows, 1, bool(ceil_mode), positions)
        found = ops.max_pool_backward(gradient, offsets, list(x.shape), *windows, bool(ceil_mode))
        assert torch.equal(found, expected)


# -- what is saved -------------------------------------------------------------------------------


@each_driver
def test_max_pooling_saves_bytes(driver: str) -> None:
    x = random(2, 3, 16, 16).requires_grad_()
    found = saved(compiled(lambda x: F.max_pool2d(x * 2, 2), driver), x)
    assert [(t.dtype, t.numel()) for t in found] == [(torch.int8, 2 * 3 * 8 * 8)]


class Layer(nn.Module):
    """Convolution, normalisation and activation, and a convolution that reads the result."""

    def __init__(self, norm: nn.Module, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 8, 3, bias=False), norm
        self.activation, self.last = activation, nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.activation(self.norm(self.conv(x))))


LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[Tensor], Tensor]]] = {
    "batch_relu6": (lambda: nn.BatchNorm2d(8), F.relu6),
    "batch_hardswish": (lambda: nn.BatchNorm2d(8), F.hardswish),
    "batch_silu": (lambda: nn.BatchNorm2d(8), F.silu),
    "batch_relu": (lambda: nn.BatchNorm2d(8), F.relu),
    "batch_plain": (lambda: nn.BatchNorm2d(8, affine=False), F.leaky_relu),
    "group_silu": (lambda: nn.GroupNorm(2, 8), F.silu),
    "group_relu": (lambda: nn.GroupNorm(4, 8, affine=False), F.relu),
}


def layer(name: str) -> nn.Module:
    make, activation = LAYERS[name]
    torch.manual_seed(1)
    model = Layer(make(), activation)
    with torch.no_grad():
        for p in model.norm.parameters():
            p.normal_()
    return model


@each_driver
@pytest.mark.parametrize("name", LAYERS)
def test_normalised_tensors_are_not_saved(driver: str, name: str) -> None:
    """Two tensors as large: the convolution's result, and what the last one reads."""
    x = random(3, 4, 10, 10)
    found = saved(compiled(layer(name), driver), x)
    large = [t for t in found if t.numel() >= 3 * 8 * 8 * 8]
    assert len(large) == 2 and all(t.dtype is torch.float32 for t in large)


@each_driver
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_normalised_layers(driver: str, name: str) -> None:
    x = random(3, 4, 10, 10)
    exact = layer(name).double()
    expected = gradients(exact, [x.double()], list(exact.parameters()))
    model = layer(name)
    function = compiled(model, driver)
    with poisoned_memory():
        found = gradients(function, [x], list(model.parameters()))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)
    for a, b in zip(model.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-5, atol=1e-5)


@each_driver
@pytest.mark.parametrize(
    "norm", [nn.BatchNorm2d(8), nn.GroupNorm(2, 8)], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last], ids=str)
def test_normalised_layers_of_any_size(
    driver: str, norm: nn.Module, order: torch.memory_format, recwarn: pytest.WarningsRecorder
) -> None:
    def fn(x: Tensor) -> Tensor:
        return F.silu(norm(x))

    function = compiled(fn, driver, dynamic=True)
    for n in (3, 5, 7):
        x = random(n, 8, n + 4, 6).to(memory_format=order)
        for a, b in zip(gradients(function, [x]), gradients(fn, [x]), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert not [w for w in recwarn if "SymInt" in str(w.message)]


@each_driver
def test_a_relu_between_pooling_and_a_joint_saves_nothing_of_its_own(driver: str) -> None:
    """As in a U-Net: its result goes to where nothing has to be saved, and comes from the input of
    the normalisation again.
    """

    def fn(x: Tensor, scale: Tensor) -> Tensor:
        y = F.relu(F.batch_norm(x.sin(), None, None, scale, training=True))
        return torch.cat([F.max_pool2d(y, 2), F.avg_pool2d(y, 2)], 1)

    x, scale = random(2, 4, 12, 12).requires_grad_(), random(4).requires_grad_()
    found = saved(compiled(fn, driver), x, scale)
    assert sum(t.numel() for t in found if t.is_floating_point()) <= 2 * 4 * 12 * 12 + 3 * 4
    for a, b in zip(gradients(compiled(fn, driver), [x, scale]), gradients(fn, [x, scale])):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@each_driver
def test_gradient_of_relu_passes_a_nan_on(driver: str) -> None:
    x = random(3, 50)
    x[1, ::7] = torch.nan
    x[2, ::5] = 0

    def fn(x: Tensor) -> Tensor:
        return F.threshold(x, 0.3, -1.0) + x.relu()

    for a, b in zip(gradients(compiled(fn, driver), [x]), gradients(fn, [x]), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
