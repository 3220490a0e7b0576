"""Scatters into an input: without a copy of it, wherever nobody needs what was there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import PROFILES, compiled, random, two_drivers
from torch import Tensor, nn

import ocl_inductor

each_driver = pytest.mark.parametrize("driver", two_drivers())
#: One profile has memory of its own, to which inputs are copied.
everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)

ROWS, COLUMNS = 300, 64
#: Most bytes that a call may move that does not touch the whole input.
FEW = ROWS * COLUMNS * 4 // 2


def copied(x: Tensor, v: Tensor, at: Tensor) -> Tensor:
    x.index_copy_(0, at, v)
    return x[:4] * 2


def put(x: Tensor, v: Tensor, at: Tensor) -> None:
    x[:, at % COLUMNS] = v[:, 1:2].T


def added(x: Tensor, v: Tensor, at: Tensor) -> None:
    x.index_add_(0, at, v, alpha=2)


def accumulated(x: Tensor, v: Tensor, at: Tensor) -> None:
    x.index_put_((at,), v, accumulate=True)


def filled(x: Tensor, v: Tensor, at: Tensor) -> None:
    x.index_fill_(0, at, 3.0)


def scattered(x: Tensor, v: Tensor, at: Tensor) -> None:
    x.scatter_(0, at[:, None].expand(-1, COLUMNS), v)


#: Functions with one scatter into an input of which nobody reads old elements.
IN_PLACE = (copied, put, added, accumulated, filled, scattered)


def old_rows(x: Tensor, v: Tensor, at: Tensor) -> Tensor:
    before = x[3] * 2
    x.index_copy_(0, at, v + x[5])
    return before


def part_of_rows(x: Tensor, v: Tensor, at: Tensor) -> None:
    x[at, 1:] = v[:, 1:]


def its_own(x: Tensor, v: Tensor, at: Tensor) -> None:
    """Reads elements that it writes: these must be old."""
    x[at] = x[at - 1] * 2


def old_sum(x: Tensor, v: Tensor, at: Tensor) -> Tensor:
    old = x.clone()
    x.index_copy_(0, at, v)
    return old.sum(0) + x.sum(0)


def two_scatters(x: Tensor, v: Tensor, at: Tensor) -> Tensor:
    x.index_copy_(0, at, v)
    x.index_add_(0, at - 1, v)
    return x.mean(1)


def returned(x: Tensor, v: Tensor, at: Tensor) -> Tensor:
    return x.index_copy_(0, at, v)


def also_apart(x: Tensor, v: Tensor, at: Tensor) -> Tensor:
    new = x.index_copy(0, at, v)
    x.copy_(new)
    return new


def joined(x: Tensor, v: Tensor, at: Tensor) -> None:
    x.copy_(torch.cat([v, v * 2, x.new_zeros(ROWS - 2 * len(v), COLUMNS)]))


def rolled(x: Tensor, v: Tensor, at: Tensor) -> None:
    x.copy_(torch.cat([x[len(v) :], v]))


def swapped(x: Tensor, v: Tensor, at: Tensor) -> None:
    new = torch.cat([x[ROWS // 2 :], x[: ROWS // 2]])
    x.copy_(new)


AS_EAGER = (
    old_rows,
    part_of_rows,
    its_own,
    old_sum,
    two_scatters,
    returned,
    also_apart,
    joined,
    rolled,
    swapped,
)


def same_results(function: Callable[..., object], driver: str, profile: str, x: Tensor) -> int:
    """Bytes of the kernels of a call that leaves and gives what eager does."""
    v, at = random(7, COLUMNS), torch.randperm(ROWS - 1)[:7] + 1
    call = compiled(function, driver, profile=profile)
    call(torch.empty_strided(x.shape, x.stride()).copy_(x), v, at)
    ours = torch.empty_strided(x.shape, x.stride()).copy_(x)
    with ocl_inductor.profile() as found:
        got = call(ours, v, at)
    want = function(x, v, at)
    torch.testing.assert_close(ours, x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    return sum(k.nbytes for k in found.kernels)


@everywhere
@pytest.mark.parametrize("function", IN_PLACE, ids=lambda f: f.__name__)
def test_only_what_is_hit_moves(driver: str, profile: str, function: Callable[..., object]) -> None:
    assert same_results(function, driver, profile, random(ROWS, COLUMNS)) < FEW


@everywhere
@pytest.mark.parametrize("function", AS_EAGER, ids=lambda f: f.__name__)
def test_what_else_happens_to_the_input(
    driver: str, profile: str, function: Callable[..., object]
) -> None:
    same_results(function, driver, profile, random(ROWS, COLUMNS))


@everywhere
@pytest.mark.parametrize("function", [*IN_PLACE, *AS_EAGER], ids=lambda f: f.__name__)
def test_an_input_of_other_strides(
    driver: str, profile: str, function: Callable[..., object]
) -> None:
    same_results(function, driver, profile, random(COLUMNS, ROWS).T)


@each_driver
def test_colliding_indices(driver: str) -> None:
    """The last of those that set an element wins, as in eager on the CPU; sums have all of them."""

    def both(x: Tensor, y: Tensor, v: Tensor, at: Tensor) -> None:
        x.index_add_(0, at, v)
        y.index_copy_(0, at, v)

    at = torch.tensor([4, 2, 4, 4, 0, 2])
    x, y, v = random(9, 5), random(9, 5), random(6, 5)
    ours_x, ours_y = x.clone(), y.clone()
    compiled(both, driver)(ours_x, ours_y, v, at)
    both(x, y, v, at)
    torch.testing.assert_close(ours_x, x)
    torch.testing.assert_close(ours_y, y)


class Caches(nn.Module):
    """Keys and values of layers, as in the decoder of a language model."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(16, 16) for _ in range(2 * layers))
        for n in range(2 * layers):
            self.register_buffer(f"cache{n}", random(2, 512, 16))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        for n in range(0, len(self.projections), 2):
            found = []
            for k in (n, n + 1):
                cache = self.get_buffer(f"cache{k}")
                cache.index_copy_(1, at, self.projections[k](x))
                found.append(cache)
            x = x + nn.functional.scaled_dot_product_attention(x, *found)
        return x


@each_driver
def test_caches_of_a_decoder(driver: str) -> None:
    """Also where the copies of all layers would be one launch."""
    model = Caches(3).eval()
    start = {name: b.clone() for name, b in model.named_buffers()}
    call = compiled(model, driver)
    with torch.inference_mode():
        results = []
        for run in (model, call):
            for name, b in model.named_buffers():
                b.copy_(start[name])
            torch.manual_seed(0)
            for step in range(3):
                got = run(torch.randn(2, 1, 16), torch.tensor([step]))
            results.append((got, {name: b.clone() for name, b in model.named_buffers()}))
        with ocl_inductor.profile() as found:
            call(torch.randn(2, 1, 16), torch.tensor([5]))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)
    read = 6 * 2 * 512 * 16 * 4
    assert sum(k.nbytes for k in found.kernels) < 1.5 * read
