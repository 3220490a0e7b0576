"""Data that eager refuses: compiled, the call raises as well, and the next one works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from abilities import skip_where_pytorch_forgets, where_pytorch_can
from agreement import assert_same, compiled, random, two_drivers
from torch import Tensor

from ocl_inductor.errors import OpenCLInductorError

DRIVERS = two_drivers()
each_driver = pytest.mark.parametrize("driver", DRIVERS)
each_profile = pytest.mark.parametrize("profile", ["vector", "simt"])


@pytest.fixture(autouse=True)
def _from_the_beginning() -> None:
    torch.compiler.reset()


@dataclass(frozen=True)
class Case:
    """``make()`` gives arguments that eager takes; each of ``wrong`` takes the place of one."""

    f: Callable[..., Any]
    make: Callable[[], list[Any]]
    wrong: list[tuple[int, Any]]


def refused(case: Case, driver: str, **options: Any) -> None:
    """By eager, and when compiled with an error of that type; good calls go on in between."""
    run = compiled(case.f, driver, fallback="error", **options)
    for at, bad in case.wrong:
        args = case.make()
        with where_pytorch_can(case.f, *args, dynamic=options.get("dynamic", False)):
            actual = run(*args)
        assert_same(actual, case.f(*args), rtol=1e-5, atol=1e-5)
        args[at] = bad
        with pytest.raises((RuntimeError, IndexError)) as eager:
            case.f(*args)
        with pytest.raises(eager.type) as found:
            run(*args)
        assert isinstance(found.value, OpenCLInductorError), "eager has not been asked"
        assert __file__.rpartition("/")[2] in str(found.value)
    args = case.make()
    assert_same(run(*args), case.f(*args), rtol=1e-5, atol=1e-5)


def longs(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def mask(*places: int, of: int) -> Tensor:
    return torch.zeros(of, dtype=torch.bool).index_fill_(0, longs(*places), True)


def _put(x: Tensor, where: Tensor, values: Tensor) -> Tensor:
    y = x.clone()
    y[where] = values
    return y


def _sorted() -> list[Any]:
    numbers = random(37)
    return [numbers, random(50), numbers.argsort()]


def _order(place: int, index: int) -> Tensor:
    order = torch.arange(37)
    order[place] = index
    return order


def _rows_of(n: int) -> Callable[[], list[Any]]:
    return lambda: [random(n, 17), mask(0, 3, of=n), random(2, 17)]


CASES: dict[str, Case] = {
    "sorter": Case(
        lambda b, x, order: torch.searchsorted(b, x, sorter=order), _sorted,
        [(2, _order(36, 37)), (2, _order(1, -1)), (2, _order(9, 2**40))],
    ),
    "sorter of rows": Case(
        lambda b, x, order: torch.searchsorted(b, x, sorter=order, right=True),
        lambda: [(b := random(3, 9)), random(3, 4), b.argsort(-1)],
        [(2, torch.arange(9).repeat(3, 1) + 1)],
    ),
    "sorter of one number": Case(
        lambda b, order: torch.searchsorted(b, 0.25, sorter=order, out_int32=True),
        lambda: [(b := random(37)), b.argsort()],
        [(1, _order(0, 37))],
    ),
    "masked_scatter": Case(
        lambda x, m, source: x.masked_scatter(m, source),
        lambda: [random(40), mask(1, 17, 39, of=40), random(3)],
        [(2, random(2)), (1, torch.ones(40, dtype=torch.bool)), (2, random(0))],
    ),
    "rows at a mask": Case(
        _put, _rows_of(5),
        [(1, mask(0, 1, 2, of=5)), (1, mask(4, of=5)), (1, mask(of=5)), (2, random(3, 17)),
         (2, random(0, 17))],
    ),
    "elements at a mask": Case(
        _put, lambda: [random(5, 9), mask(0, 8, 44, of=45).view(5, 9), random(3)],
        [(2, random(4)), (1, torch.ones(5, 9, dtype=torch.bool)), (2, random(45))],
    ),
    "sums at a mask": Case(
        lambda x, m, v: x.index_put((m,), v, accumulate=True), _rows_of(40), [(2, random(40, 17))]
    ),
    "repeats with a size": Case(
        lambda x, n: x.repeat_interleave(n, 0, output_size=6),
        lambda: [random(4, 5), longs(1, 0, 3, 2)],
        [(1, longs(1, 1, 1, 1)), (1, longs(3, -1, 2, 2)), (1, longs(9, 9, 9, 9))],
    ),
    "segments by length": Case(
        lambda x, n: torch.segment_reduce(x, "sum", lengths=n),
        lambda: [random(9), longs(2, 0, 7)],
        [(1, longs(2, 0, 6)), (1, longs(12, -3, 0)), (1, longs(9, 9, 9))],
    ),
    "segments of rows": Case(
        lambda x, n: torch.segment_reduce(x, "max", lengths=n, axis=1),
        lambda: [random(2, 5), torch.tensor([[2, 3], [1, 4]])],
        [(1, torch.tensor([[2, 3], [1, 3]]))],
    ),
    "segments by offset": Case(
        lambda x, n: torch.segment_reduce(x, "mean", offsets=n),
        lambda: [random(9), longs(0, 4, 9)],
        [(1, longs(0, -1, 9))],
    ),
    "fractions": Case(
        lambda x, q: torch.quantile(x, q) * 2, lambda: [random(11), torch.tensor([0.0, 0.3, 1.0])],
        [(1, torch.tensor([0.2, -0.1])), (1, torch.tensor(1.5)),
         (1, torch.tensor([0.5, torch.nan]))],
    ),
    "fractions, without NaN": Case(
        lambda x, q: x.nanquantile(q=q, dim=0), lambda: [random(11, 3), torch.tensor([0.5, 0.25])],
        [(1, torch.tensor([0.5, -0.25]))],
    ),
    "zero points": Case(
        lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, 0, 255),
        lambda: [random(5, 3), torch.rand(3) + 0.5, torch.tensor([0, 9, 255], dtype=torch.int32)],
        [(2, torch.tensor([0, 9, 256], dtype=torch.int32)),
         (2, torch.tensor([0, -1, 25], dtype=torch.int32))],
    ),
    "labels": Case(
        lambda x, t: F.multilabel_margin_loss(x, t) * 2,
        lambda: [random(2, 4), longs(2, 0, -1, 3).repeat(2, 1)],
        [(1, longs(2, 0, -1, 4).repeat(2, 1)), (1, longs(4, 0, -1, 3).repeat(2, 1)),
         (1, longs(2, -1, 0, -2).repeat(2, 1))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@each_profile
@each_driver
def test_data_that_eager_refuses(name: str, profile: str, driver: str) -> None:
    refused(CASES[name], driver, profile=profile)


def test_what_depends_on_the_sorter_alone_is_computed_anew() -> None:
    """After a call that failed, too."""
    sorter, b = torch.arange(9), torch.arange(9.0)
    run = compiled(lambda x: torch.searchsorted(b, x, sorter=sorter), DRIVERS[0])
    for index in (9, 0, -1, 8):
        sorter[0] = index
        if 0 <= index < 9:
            x = random(5)
            assert_same(run(x), torch.searchsorted(b, x, sorter=sorter))
        else:
            with pytest.raises(IndexError):
                run(random(5))


# -- bags of embeddings --------------------------------------------------------------------


def _bags(mode: str, closed: bool) -> Callable[..., Tensor]:
    return lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=closed)


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@each_driver
def test_offsets_of_bags(mode: str, closed: bool, driver: str) -> None:
    def make() -> list[Any]:
        return [random(10, 33), torch.randint(10, (7,)), longs(0, 2, 2, 7)]

    # Eager does not look at offsets in the middle, and reads where they point to.
    wrong = [longs(1, 2, 3, 7), longs(-1, 2, 3, 7), longs(0, 2, 3, 8), longs(0, 2, 3, 2**40)]
    refused(Case(_bags(mode, closed), make, [(2, o) for o in wrong]), driver)
    run = compiled(_bags(mode, closed), driver, fallback="error", profile="simt")
    for offsets in (longs(0, 4, 2, 7), longs(0, 9, 2, 7), longs(0, -2, 2, 7)):
        with pytest.raises(RuntimeError, match="nor an offset less than the one before it"):
            run(*make()[:2], offsets)
    args = make()
    assert_same(run(*args), _bags(mode, closed)(*args), rtol=1e-5, atol=1e-5)


def test_bags_of_no_index() -> None:
    f, none = _bags("sum", False), torch.zeros(0, dtype=torch.int64)
    refused(Case(f, lambda: [random(10, 33), none, longs(0, 0)], [(2, longs(0, 1))]), DRIVERS[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_where_the_last_bag_ends(mode: str, dtype: torch.dtype) -> None:
    """Before the last index, as the last of the offsets says, or not, as eager has it."""
    f, args = _bags(mode, True), [random(10, 33).to(dtype), torch.arange(7), longs(0, 2, 4)]
    run = compiled(f, DRIVERS[0], fallback="error")
    assert_same(run(*args), f(*args), rtol=1e-2, atol=1e-2)
    if mode == "sum" and dtype is torch.float32:
        w = args[0].requires_grad_()
        (found,) = torch.autograd.grad(run(w, *args[1:]).sum(), w)
        assert_same(found, (torch.arange(10) < 4).float()[:, None].repeat(1, 33))


# -- lengths of sequences ------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@each_driver
def test_lengths_of_sequences(padded: bool, training: bool, driver: str) -> None:
    def make() -> list[Any]:
        x = random(5, 2, 4).log_softmax(-1).requires_grad_(training)
        labels = torch.randint(1, 4, (2, 3) if padded else (5,))
        return [x, labels, longs(5, 4), longs(2, 3)]

    wrong = [(2, longs(6, 5)), (2, longs(-1, 5)), (3, longs(-1, 3)), (3, longs(4, 3))]
    if not padded:  # then they have to be as many as there are
        wrong += [(3, longs(2, 2)), (3, longs(3, 3))]
    refused(Case(lambda *a: F.ctc_loss(*a, reduction="none"), make, wrong), driver)


def test_lengths_of_one_sequence() -> None:
    def make() -> list[Any]:
        return [random(5, 4).log_softmax(-1), longs(1, 2, 3), torch.tensor(5), torch.tensor(3)]

    wrong = [(2, torch.tensor(6)), (3, torch.tensor(4))]
    refused(Case(lambda *a: F.ctc_loss(*a) * 2, make, wrong), DRIVERS[0], dynamic=True)


# -- sizes that tracing takes for equal ----------------------------------------------------


@pytest.fixture
def captured_sizes() -> Iterator[None]:
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield


THREE, FOUR = mask(0, 2, 5, of=6), mask(0, 1, 2, 3, of=6)


def _numbers(x: Tensor, m: Tensor, n: Tensor) -> Tensor:
    return torch.zeros(n.item()) + x[m][:, 0]


def _checked(x: Tensor, m: Tensor) -> Tensor:
    torch._check(bool(m[2].item()))
    return x[m].sum(0)


EQUAL: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "that of an input": (lambda x, m, y: x[m] + y, [THREE, random(3, 5)], [FOUR, random(3, 5)]),
    "a number": (lambda x, m: x[m].view(3, 5).sum(0), [THREE], [FOUR]),
    "another count": (lambda x, m, n: x[m] + x[n], [THREE, THREE.flip(0)], [THREE, FOUR]),
    "the same, the other way": (lambda x, m, n: x[m] + x[n], [FOUR, FOUR], [THREE, FOUR]),
    "a number that is an input": (_numbers, [THREE, torch.tensor(3)], [FOUR, torch.tensor(3)]),
    "what the model promises": (_checked, [THREE], [mask(0, 1, of=6)]),
    "repeats": (
        lambda x, n: x.repeat_interleave(n, 0).sum(), [longs(*range(6))], [longs(-1, *range(5))]
    ),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", EQUAL)
@each_driver
@pytest.mark.usefixtures("captured_sizes")
def test_sizes_that_are_not_what_they_were_taken_for(
    name: str, dynamic: bool | None, driver: str
) -> None:
    f, good, bad = EQUAL[name]
    if f is _checked:
        x = random(6, 5)
        skip_where_pytorch_forgets(f, [x, *good], [x, *bad], dynamic=dynamic)
    run = compiled(f, driver, fallback="error", dynamic=dynamic)
    for args in (good, bad, good, bad, good):
        x = random(6, 5)
        if args is good:
            assert_same(run(x, *args), f(x, *args), rtol=1e-5, atol=1e-5)
        else:
            with pytest.raises(RuntimeError):
                f(x, *args)
            with pytest.raises(RuntimeError):
                run(x, *args)
