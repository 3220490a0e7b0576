"""Inputs that are not plain memory: ragged, lazily zero, negated or of classes of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor

from ocl_inductor import errors

each_driver = pytest.mark.parametrize("driver", two_drivers())
each_memory = pytest.mark.parametrize(
    ("driver", "memory"), list(zip(two_drivers(), ("unified", "discrete"), strict=False))
)

LENGTHS = ((3, 2), (4, 1, 5), (1, 1, 1))


# -- ragged ones -------------------------------------------------------------------------------


def ragged(lengths: tuple[int, ...], grad: bool = False) -> Tensor:
    rows = [random(n, 8) for n in lengths]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=grad)


def pointwise(x: Tensor) -> Tensor:
    return (x * 2 + 1).relu()


def softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def attention(x: Tensor) -> Tensor:
    q = x.unflatten(-1, [2, 4]).transpose(1, 2)
    return nn.functional.scaled_dot_product_attention(q, q, q).transpose(1, 2)


def split(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return first.sin() + second * x.size(0)


@each_memory
@pytest.mark.parametrize(
    "function", [pointwise, softmax, attention, split], ids=lambda f: f.__name__
)
def test_ragged(function: Callable[[Tensor], Tensor], memory: str, driver: str) -> None:
    """Rows of any number; the result is ragged as the input is, so that eager can add both."""
    ours = compiled(function, driver, dynamic=None, fullgraph=False, memory=memory)
    for lengths in LENGTHS:
        x = ragged(lengths)
        got, want = ours(x), function(x)
        torch.testing.assert_close(got.values(), want.values())
        assert got.shape == want.shape
        torch.testing.assert_close((got + want).values(), 2 * want.values())


@each_driver
def test_gradients_of_ragged_inputs(driver: str) -> None:
    layer = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU())
    ours = compiled(layer, driver, dynamic=None, fullgraph=False)
    for lengths in LENGTHS:
        x = ragged(lengths, grad=True)
        leaves = [x, *layer.parameters()]
        got, want = (torch.autograd.grad(f(x).values().sin().sum(), leaves) for f in (ours, layer))
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(*(t.values() if t.is_nested else t for t in (g, w)))


# -- without memory of their own ---------------------------------------------------------------


def noted_zeros() -> Tensor:
    """As the gradient of sgn is."""
    with torch.enable_grad():
        x = random(4, 3).requires_grad_()
        return torch.autograd.grad(torch.sgn(x).sum(), x)[0]


def expanded_zeros() -> Tensor:
    return torch._efficientzerotensor((1, 3)).expand(4, 3)


def negated() -> Tensor:
    return torch._neg_view(random(4, 3))


def imaginary_part_of_a_conjugate() -> Tensor:
    return torch.complex(random(4, 3), random(4, 3)).conj().imag


class Named(Tensor):
    """A subclass that changes nothing."""


def of_a_class() -> Tensor:
    return random(4, 3).as_subclass(Named)


def of_two() -> Tensor:
    return TwoTensor(random(4, 3), random(4, 3))


@each_memory
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "make",
    [noted_zeros, expanded_zeros, negated, imaginary_part_of_a_conjugate, of_a_class, of_two],
    ids=lambda f: f.__name__,
)
def test_unusual_tensors(
    make: Callable[[], Tensor], dynamic: bool, memory: str, driver: str
) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin() + y, (x * y).sum(0)

    ours = compiled(function, driver, dynamic=dynamic, memory=memory)
    with torch.no_grad():
        for _ in range(3):  # the first call, the one that learns, and a usual one
            x, y = make(), random(4, 3)
            for got, want in zip(ours(x, y), function(x, y), strict=True):
                assert type(got) is type(want)
                torch.testing.assert_close(plain(got), plain(want))


def plain(x: Tensor) -> Tensor:
    return torch.stack([x.a, x.b]) if isinstance(x, TwoTensor) else x.as_subclass(Tensor)


@each_driver
def test_zeros_beside_memory(driver: str) -> None:
    """One function sees both in turn."""

    def function(x: Tensor) -> Tensor:
        return x.cos() * 2

    ours = compiled(function, driver)
    for _ in range(2):
        for x in (random(4, 3), torch._efficientzerotensor((4, 3)), random(4, 3)):
            torch.testing.assert_close(ours(x), function(x))


def test_layouts_of_libraries() -> None:
    """PyTorch loses their strides when it traces, so that there is nothing to compile from."""
    with pytest.raises(Exception, match=r"\[4, 3\].*to_dense") as caught:
        torch.compile(lambda x: x * 2, backend="opencl")(random(4, 3).to_mkldnn())
    assert isinstance(caught.value.inner_exception, errors.UnsupportedLayoutError)


@each_driver
def test_sparse_tensors_stay_sparse(driver: str) -> None:
    """On the host, as they are."""

    def function(x: Tensor) -> Tensor:
        return x * 2

    for x in (random(4, 3).relu().to_sparse(), random(4, 3).relu().to_sparse_csr()):
        got = compiled(function, driver, fullgraph=False)(x)
        assert got.layout is x.layout
        torch.testing.assert_close(got.to_dense(), 2 * x.to_dense())
