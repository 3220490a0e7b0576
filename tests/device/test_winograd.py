"""What Winograd's algorithm may cost in digits (docs/options.md), and who never pays it."""

from __future__ import annotations

import pytest
import torch
from agreement import compiled, poisoned_memory, two_drivers
from torch.nn import functional as F

import ocl_inductor
from ocl_inductor.device.select import select_device

#: Rms error, of results whose rms is 1.
MOST = 1e-6


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def kernels(driver: str, x: torch.Tensor, w: torch.Tensor, **options: object) -> set[str]:
    """The templates of a compiled convolution, by the first word of their kernels' names."""
    run = compiled(lambda x, w: F.conv2d(x, w, padding=1), driver, profile="vector", **options)
    run(x, w)
    with ocl_inductor.profile() as found:
        run(x, w)
    return {k.name.split("_convolution")[0] for k in found.kernels}


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(
    "batch,channels,size",
    [(1, 64, 56), (2, 128, 28), (4, 256, 14), (1, 384, 28)],
    ids=["64", "128", "256 in three kernels", "384 in three kernels"],
)
def test_the_error_stays_within_its_bound(
    driver: str, batch: int, channels: int, size: int
) -> None:
    x = torch.randn(batch, channels, size, size)
    w = torch.randn(channels, channels, 3, 3) / (3 * channels**0.5)
    exact = F.conv2d(x.double(), w.double(), padding=1)

    run = compiled(lambda x, w: F.conv2d(x, w, padding=1), driver, profile="vector")
    with poisoned_memory():
        found = run(x, w)
    assert 0.9 < exact.square().mean().sqrt() < 1.1
    assert (found - exact).square().mean().sqrt() <= MOST


@pytest.mark.parametrize("driver", two_drivers())
def test_who_never_pays_it(driver: str) -> None:
    x, w = torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3)
    wide = select_device(driver).info.vector_width >= 8  # narrower vectors have no kernels for it
    assert ("winograd" in kernels(driver, x, w)) is wide
    assert "winograd" not in kernels(driver, x, w, winograd=False)
    assert "winograd" not in kernels(driver, x.double(), w.double())


@pytest.mark.parametrize("driver", two_drivers())
def test_half_types_lose_nothing(driver: str) -> None:
    x, w = torch.randn(1, 64, 56, 56).half(), torch.randn(64, 64, 3, 3).half()
    run = compiled(lambda x, w: F.conv2d(x, w, padding=1), driver, profile="vector")
    exact = F.conv2d(x.double(), w.double(), padding=1)
    with poisoned_memory():
        found = run(x, w)
    rounding = (exact.half() - exact).square().mean().sqrt()
    assert (found - exact).square().mean().sqrt() <= 1.01 * rounding


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("batch,channels,size", [(4, 64, 56), (4, 256, 14), (2, 512, 7)])
def test_gradients_stay_within_it(driver: str, batch: int, channels: int, size: int) -> None:
    """Of the input, and of the weight, a sum over all pixels."""
    x = torch.randn(batch, channels, size, size, requires_grad=True)
    w = (torch.randn(channels, channels, 3, 3) / (3 * channels**0.5)).requires_grad_()
    g = torch.randn(batch, channels, size, size)
    doubles = [t.detach().double().requires_grad_() for t in (x, w)]
    exact = torch.autograd.grad(F.conv2d(*doubles, padding=1), doubles, g.double())

    run = compiled(lambda x, w: F.conv2d(x, w, padding=1), driver, profile="vector")
    with poisoned_memory():
        found = torch.autograd.grad(run(x, w), (x, w), g)
    for f, e in zip(found, exact, strict=True):
        assert (f - e).square().mean().sqrt() <= MOST * e.square().mean().sqrt()
