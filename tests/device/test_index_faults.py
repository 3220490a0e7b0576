"""How a call ends in which a kernel found an index out of range, and what the next one is like."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import compiled, random, two_drivers
from plan_cache import Cache
from torch import Tensor, nn
from torch._dynamo.exc import TorchRuntimeError

from ocl_inductor.errors import IndexOutOfRangeError
from ocl_inductor.plan.plan import FAULT, Launch

each_driver = pytest.mark.parametrize("driver", two_drivers())
DRIVER = two_drivers()[0]


def rows(x: Tensor, i: Tensor) -> Tensor:
    return x[i] * 2


def refused(run: Any, *args: Any) -> IndexOutOfRangeError:
    with pytest.raises(IndexOutOfRangeError) as caught:
        run(*args)
    return caught.value


def goes_on(run: Any, fn: Any, x: Tensor, good: Tensor, bad: Tensor) -> None:
    """Good and bad calls in turn, on the first and on the usual way through a call."""
    for index in (bad, good, good, good, bad, bad, good):
        if index is bad:
            refused(run, x, index)
        else:
            torch.testing.assert_close(run(x, index), fn(x, index))


@each_driver
def test_what_it_says(driver: str) -> None:
    run = compiled(lambda x, i, j: x[:, i, j] + 1, driver)
    x, good = random(3, 5, 7), torch.tensor([1, -5, 2])
    error = refused(run, x, good, torch.tensor([1, -8, 1]))
    assert "index -8 is out of bounds for dimension 2 with size 7, in aten.index" in str(error)
    assert "test_index_faults.py" in str(error) and "x[:, i, j] + 1" in str(error)
    assert error.facts["index"] == -8 and error.facts["dim"] == 2
    assert isinstance(error, IndexError) and isinstance(error, RuntimeError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "index 5 " in str(refused(run, x, torch.tensor([0, 0, 5]), good))
    # Vectors of indices are narrowed, so that what is beyond 32 bits is found, but not kept.
    far = refused(run, x, torch.tensor([0, 2**40, 0]), good)
    which = {None: "an index of more than 32 bits", 2**40: f"index {2**40}"}[far.facts["index"]]
    assert f"{which} is out of bounds for dimension 1 with size 5" in str(far)


@pytest.mark.parametrize("index", [2**31, 2**32 + 1, -(2**31) - 1, -(2**32) + 1, -1, -5])
@pytest.mark.parametrize("dynamic", [False, True])
@each_driver
def test_vectors_of_indices_that_32_bits_do_not_hold(
    dynamic: bool, index: int, driver: str
) -> None:
    """Low bits that are a position, and negative ones where none may be."""
    run = compiled(lambda x, i: x.gather(0, i), driver, dynamic=dynamic)
    x, positions = random(4, 100), torch.randint(4, (4, 100))
    torch.testing.assert_close(run(x, positions), x.gather(0, positions))
    positions[2, 37] = index
    error = refused(run, x, positions)
    # Of those that are narrowed all but negative ones of 32 bits are unknown.
    fits = -(2**31) <= index < 0
    assert error.facts["index"] in ((index,) if fits else (index, None))
    positions[2, 37] = 3
    torch.testing.assert_close(run(x, positions), x.gather(0, positions))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@each_driver
def test_dimension_that_may_be_empty(driver: str) -> None:
    """No index into an empty dimension is no fault; any index is."""

    def first(x: Tensor, rest: Tensor) -> Tensor:
        chosen = x[x > 0]
        return torch.cat([chosen.gather(0, torch.zeros_like(chosen, dtype=torch.int64)), rest])

    def take(x: Tensor, i: Tensor, rest: Tensor) -> Tensor:
        return torch.cat([x[x > 0].gather(0, i), rest])

    each, given = compiled(first, driver), compiled(take, driver)
    rest, zeros = random(50), torch.zeros(24, dtype=torch.int64)
    for x in (random(90), -random(90).abs(), random(90)):
        assert torch.equal(each(x, rest), first(x, rest))
        if (x > 0).any():
            assert torch.equal(given(x, zeros, rest), take(x, zeros, rest))
        else:
            assert refused(given, x, zeros, rest).facts["size"] == 0


@pytest.mark.parametrize("memory", ["unified", "discrete"])
@each_driver
@torch.no_grad()
def test_the_next_call_works(memory: str, driver: str) -> None:
    run = compiled(rows, driver, memory=memory)
    goes_on(run, rows, random(9, 40), torch.tensor([8, -9, 3]), torch.tensor([1, 9, 3]))


@pytest.mark.parametrize("mode", ["reduce-overhead", "default"])
def test_other_ways_to_launch(mode: str) -> None:
    run = compiled(rows, DRIVER, mode=mode, calling_thread=mode == "default")
    x, good, bad = random(9, 40), torch.tensor([8, -9, 3]), torch.tensor([1, 9, 3])
    for _ in range(9):
        goes_on(run, rows, x, good, bad)


def test_sizes_that_change() -> None:
    run = compiled(rows, DRIVER, dynamic=True)
    for n in (9, 31, 12):
        good, bad = torch.tensor([n - 1, -n, 3]), torch.tensor([1, -n - 1, 3])
        goes_on(run, rows, random(n, 17), good, bad)
        assert f"index {-n - 1} is out of bounds for dimension 0 with size {n}," in str(
            refused(run, random(n, 17), bad)
        )


@each_driver
def test_training(driver: str) -> None:
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 5))
    run = compiled(lambda i, t: F.cross_entropy(model(i), t), driver)
    i, t = torch.tensor([1, 10, 1]), torch.tensor([4, -100, 2])
    for _ in range(2):
        assert refused(run, torch.tensor([1, 11, 1]), t).facts["operator"] == "aten.embedding"
        assert refused(run, i, torch.tensor([4, -100, 5])).facts["index"] == 5
        expected = torch.autograd.grad(F.cross_entropy(model(i), t), model.parameters())
        found = torch.autograd.grad(run(i, t), model.parameters())
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)


class _Places(torch.autograd.Function):
    """Adds its gradient at places that only the backward pass looks at."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, i: Tensor) -> Tensor:
        ctx.save_for_backward(i)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return torch.zeros_like(grad).index_add(0, ctx.saved_tensors[0], grad), None


def test_a_backward_pass() -> None:
    run = compiled(_Places.apply, DRIVER)
    x, good = random(5, 33).requires_grad_(), torch.tensor([4, 0, 0, 2, 1])
    for index in (torch.tensor([0, 1, 5, 2, 3]), good, torch.tensor([0, -1, 4, 2, 3]), good):
        result = run(x, index)
        if index is good:
            expected = torch.zeros_like(x).index_add(0, index, torch.ones_like(x))
            (found,) = torch.autograd.grad(result.sum(), x)
            torch.testing.assert_close(found, expected)
        else:
            assert "aten.index_add" in str(refused(result.sum().backward))


def test_many_small_kernels_of_one_form(plans: list[Any]) -> None:
    """They become parts of one launch, and each reports as itself."""

    def fn(xs: list[Tensor], i: list[Tensor]) -> list[Tensor]:
        return [x[at].sin() for x, at in zip(xs, i, strict=True)]

    run = compiled(fn, DRIVER, chain=False)
    xs, good = [random(6, 40) for _ in range(6)], [torch.randperm(6) for _ in range(6)]
    for n in (5, 0, 3):
        bad = [i.clone() for i in good]
        bad[n][2] = 60 + n
        assert refused(run, xs, bad).facts["index"] == 60 + n
        for a, b in zip(run(xs, good), fn(xs, good), strict=True):
            torch.testing.assert_close(a, b)
    assert len(plans[0].checks) >= 1
    noting = [s for s in plans[0].steps if isinstance(s, Launch) and FAULT in s.buffers]
    assert len(noting) < 6


def test_indices_that_are_parameters() -> None:
    """What depends on them alone is computed once, and after a failed call again."""

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(random(6, 40))
            self.register_buffer("at", torch.tensor([1, 6, 2]))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.table[self.at]

    model, x = Table(), random(5, 3)
    with torch.no_grad():
        run = compiled(model, DRIVER)
        for number in (6, 6, 5, 5, -7, -7, -6):
            model.at[1] = number
            if -6 <= number < 6:
                torch.testing.assert_close(run(x), model(x))
            else:
                assert refused(run, x).facts["index"] == number


def test_a_plan_from_disk(cache: Cache) -> None:
    x, good, bad = random(9, 17), torch.tensor([8, -9, 3]), torch.tensor([1, 9, 3])
    assert cache.same(rows, x, good) == "miss"
    assert cache.same(rows, x, good) == "hit"
    torch._dynamo.reset()
    goes_on(compiled(rows, DRIVER, cache_dir=str(cache.folder)), rows, x, good, bad)


# -- nothing there to index ----------------------------------------------------------------

EMPTY = {
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(i.view(1, -1), x),
    "getitem": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.view(-1, 1)),
    "take": lambda x, i: x.take(i),
    "scatter_add": lambda x, i: x.scatter_add(0, i.view(-1, 1), torch.ones(2, 1)),
    "index_put": lambda x, i: x.index_put((i,), torch.ones(4)),
}


@pytest.mark.filterwarnings("ignore:.*runs on the host")
@pytest.mark.parametrize("name", EMPTY)
def test_a_table_without_rows(name: str) -> None:
    fn = EMPTY[name]
    run = compiled(fn, DRIVER)
    table = torch.empty(0, 4)
    with pytest.raises((IndexError, RuntimeError)) as expected:
        fn(table, torch.tensor([0, 0]))
    for _ in range(2):
        # Before 2.13 Dynamo wraps whatever shape functions refuse: take's, of a table without rows.
        with pytest.raises((expected.type, TorchRuntimeError)):
            run(table, torch.tensor([0, 0]))


def test_a_table_whose_size_the_data_decide() -> None:
    def fn(mask: Tensor, i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        chosen = mask.nonzero()[:, 0].float()
        return chosen[i] + 1, chosen.index_add(0, i, x)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(fn, DRIVER, dynamic=None)
        x = random(3)
        for mask, index in (
            ([1, 0, 1, 1], [2, 0, 0]),
            ([0] * 4, [0, 0, 0]),
            ([1, 1, 1, 0], [2, 1, 1]),
        ):
            args = torch.tensor(mask, dtype=torch.bool), torch.tensor(index), x
            if any(mask):
                for a, b in zip(run(*args), fn(*args), strict=True):
                    torch.testing.assert_close(a, b)
            else:
                assert refused(run, *args).facts["size"] == 0


# -- what is not checked -------------------------------------------------------------------

KNOWN = {
    "arange": lambda x, i: x[torch.arange(8, -1, -1)],
    "argmax": lambda x, i: x.gather(1, x.argmax(1, keepdim=True)),
    "clamp": lambda x, i: x[i.clamp(-9, 8)],
    "remainder": lambda x, i: x.index_add(0, i.abs() % 9, x[:3]),
    "comparison": lambda x, i: x[(i > 2).long()],
    "resize": lambda x, i: F.interpolate(x.view(1, 1, 9, 9), scale_factor=1.7),
    "samples": lambda x, i: F.grid_sample(
        x.view(1, 1, 9, 9), x.view(-1)[:80].view(1, 8, 5, 2), align_corners=False
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_cannot_be_out_of_range(name: str, plans: list[Any]) -> None:
    x, i = random(9, 9), torch.tensor([4, -3, 8])
    torch.testing.assert_close(compiled(KNOWN[name], DRIVER)(x, i), KNOWN[name](x, i))
    assert not plans[0].checks
    assert all(FAULT not in k.source for k in plans[0].kernels)


@each_driver
def test_the_option(driver: str, plans: list[Any]) -> None:
    run = compiled(rows, driver, check_indices=False)
    x = random(9, 40)
    torch.testing.assert_close(run(x, torch.tensor([0, 20, -20])), rows(x, torch.tensor([0, 8, 0])))
    assert not plans[0].checks and all(FAULT not in k.source for k in plans[0].kernels)
