"""Dtypes that PyTorch stores, moves and converts: floats of 8 bits, and unsigned integers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, compiled
from torch import Tensor

from ocl_inductor.device.select import select_device

FLOAT8 = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz
)  # fmt: skip
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
WIDE = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _has_unsigned_where() -> bool:
    x = torch.ones(1, dtype=UNSIGNED[0])
    try:
        torch.where(x.bool(), x, x)
    except NotImplementedError:
        return False
    return True


HAS_UNSIGNED_WHERE = _has_unsigned_where()


def on_device(fn: Any, device_name: str, profile: str) -> Any:
    torch._dynamo.reset()
    return compiled(fn, device_name, profile=profile, fallback="error")


def floats(device_name: str) -> tuple[torch.dtype, ...]:
    """Those that the device computes with."""
    return WIDE if select_device(device_name).info.fp64 else WIDE[:3]


def bytes_of(x: Tensor) -> Tensor:
    return x.contiguous().flatten().view(torch.uint8)


def codes(dtype: torch.dtype) -> Tensor:
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def numbers() -> Tensor:
    """Any bits at all, each float8 and what lies halfway between two, and their neighbours."""
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (5001,), generator=generator)
    near = torch.randn(5000, generator=generator) * torch.exp2(torch.arange(5000) % 40 - 22.0)
    parts = [bits.to(torch.int32).view(torch.float32), near]
    for dtype in FLOAT8:
        finite = codes(dtype).float()
        finite = finite[finite.isfinite()].sort()[0]
        for x in (finite, (finite[1:] + finite[:-1]) / 2):
            parts += [x, *(torch.nextafter(x, torch.tensor(s * torch.inf)) for s in (1, -1))]
    return torch.cat([*parts, torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])])


@pytest.mark.parametrize("profile", PROFILES)
def test_numbers_to_float8(device_name: str, profile: str) -> None:
    """Bit by bit what eager gives: ties to even, subnormals, what is too large, NaN."""

    def fn(*xs: Tensor) -> Any:
        return [x.to(d) for x in xs for d in FLOAT8]

    integers = torch.arange(-700, 700)
    xs = [*(numbers().to(d) for d in floats(device_name)), integers, integers % 3 == 0]
    for got, want in zip(on_device(fn, device_name, profile)(*xs), fn(*xs), strict=True):
        assert got.dtype is want.dtype
        assert torch.equal(bytes_of(got), bytes_of(want))


@pytest.mark.parametrize("profile", PROFILES)
def test_float8_to_numbers(device_name: str, profile: str) -> None:
    targets = (*floats(device_name), torch.bool, *FLOAT8)

    def fn(*xs: Tensor) -> Any:
        return [[x.to(d) for d in targets] for x in xs]

    xs = [codes(d) for d in FLOAT8]
    for got, want in zip(on_device(fn, device_name, profile)(*xs), fn(*xs), strict=True):
        for a, b in zip(got, want, strict=True):
            assert a.dtype is b.dtype
            if a.dtype in (torch.float32, torch.bool, *FLOAT8):
                nan = b.float().isnan()
                assert torch.equal(bytes_of(a[~nan]), bytes_of(b[~nan]))
                a, b = a.float(), b.float()
            assert torch.equal(a.isnan(), b.isnan())
            assert torch.equal(a.nan_to_num(), b.nan_to_num())


def chosen(x: Tensor) -> tuple[Tensor, ...]:
    """``where``, if this PyTorch's eager has it: for unsigned integers not before 2.12."""
    if not HAS_UNSIGNED_WHERE and x.dtype in UNSIGNED:
        return ()
    return (torch.where(torch.arange(6) % 2 == 0, x, x[:1]),)


def moved(x: Tensor) -> Any:
    rows = torch.tensor([2, 0])
    return (
        x.t().contiguous(),
        torch.cat([x, x[1:]], 0),
        torch.stack([x, x.roll(1, 1)]),
        F.pad(x, (1, 2)),
        x.roll(1, 0),
        x[rows],
        x.index_select(0, rows),
        F.embedding(rows, x),
        *chosen(x),
        torch.full_like(x, 3),
        torch.zeros_like(x),
        torch.ones(3, dtype=x.dtype),
        x.repeat(2, 1)[:, ::2],
        x.slice_scatter(x[:2], 0, 1, 3),
        x.unbind(1)[2],
    )


def numbers_of(dtype: torch.dtype) -> Tensor:
    """Values that need all bits, in four rows of six."""
    generator = torch.Generator().manual_seed(2)
    size = (24, dtype.itemsize)
    raw = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    return raw.view(dtype).reshape(4, 6)


@pytest.mark.parametrize("profile", PROFILES)
def test_moves(device_name: str, profile: str) -> None:
    def fn(*xs: Tensor) -> Any:
        return [y for x in xs for y in moved(x)]

    if select_device(device_name).info.platform_name == "rusticl" and profile == "vector":
        pytest.skip("llvmpipe mixes up vectors of 64-bit elements there, also of int64")
    xs = [numbers_of(d) for d in (FLOAT8[0], UNSIGNED[0], UNSIGNED[2])]
    for got, want in zip(on_device(fn, device_name, profile)(*xs), fn(*xs), strict=True):
        assert got.dtype is want.dtype and got.shape == want.shape
        assert torch.equal(bytes_of(got), bytes_of(want))


def same_numbers(got: Tensor, want: Tensor) -> None:
    """The same float8 (eager's ``abs`` lets -0 be), and others within PyTorch's tolerance."""
    assert got.dtype is want.dtype and got.shape == want.shape
    if want.dtype in FLOAT8:
        got, want = got.double(), want.double()
    torch.testing.assert_close(got, want, equal_nan=True)


def half_a_unit(got: Tensor, want: Tensor) -> None:
    """Rounded once to its dtype, from float32; ``want``: in float64."""
    if got.dtype in FLOAT8:  # what PyTorch says of their limits is not always so
        positive = codes(got.dtype)[1:126].double().nan_to_num()
        positive = positive[positive > 0]
        eps, subnormal = float(positive[positive > 1].min() - 1), float(positive.min())
    else:
        eps, subnormal = torch.finfo(got.dtype).eps, 0.0
    rtol, atol = 0.51 * eps + 1e-6, 0.51 * subnormal + 2e-5
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_eager_computes_with_float8(device_name: str, profile: str) -> None:
    def fn(*xs: Tensor) -> Any:
        return [
            y
            for x in xs
            for y in (
                *(x == x.t(), x != x[:1], x == 1.03, x != -2.0, x.isnan(), x.abs()),
                *(x * x.t(), x.any(), x.any(0), x.all(1)),
                *((x.isinf(), x.isfinite()) if x.dtype is torch.float8_e5m2 else ()),
            )
        ]

    xs = [codes(d)[torch.randperm(256)].reshape(16, 16) for d in FLOAT8]
    for x in xs:
        x.view(torch.uint8)[3:, 5] = 0  # sums and products of finite numbers too
    for got, want in zip(on_device(fn, device_name, profile)(*xs), fn(*xs), strict=True):
        same_numbers(got, want)


@pytest.mark.parametrize("profile", PROFILES)
def test_float8_is_reduced_in_float32(device_name: str, profile: str) -> None:
    """Against float64: the order of a sum is not eager's."""
    sums = ("sum", "mean", "cumsum")

    def reduced(x: Tensor, dtype: torch.dtype) -> list[Tensor]:
        return [getattr(x, f)(0, dtype=dtype) for f in sums]

    def fn(*xs: Tensor) -> Any:
        # Of all codes no product is safe: it depends on the order whether it passes infinity.
        return [[*reduced(x, torch.float32), y.prod(0, dtype=torch.float32)]
                for x, y in zip(xs[::2], xs[1::2], strict=True)]  # fmt: skip

    pairs = [
        (codes(d)[torch.randperm(256)].reshape(16, 16), (torch.rand(16, 16) + 0.5).to(d))
        for d in FLOAT8
    ]
    for x, _ in pairs:
        x.view(torch.uint8)[3:, 5] = 0  # sums of finite numbers too
    found = on_device(fn, device_name, profile)(*(t for pair in pairs for t in pair))
    for (x, y), got in zip(pairs, found, strict=True):
        wide = x.double()
        room = 16 * torch.finfo(torch.float32).eps * wide.abs().nan_to_num(0, 0, 0).sum(0)
        for have, want in zip(got[:3], reduced(wide, torch.float64), strict=True):
            finite = want.isfinite()
            assert torch.equal(have.double()[~finite].nan_to_num(7), want[~finite].nan_to_num(7))
            assert bool(((have.double() - want).abs() <= room)[finite].all())
        torch.testing.assert_close(got[3].double(), y.double().prod(0), rtol=1e-5, atol=0)


@pytest.mark.parametrize("profile", PROFILES)
def test_products_of_float8(device_name: str, profile: str) -> None:
    """Sums in float32 and rounded once, as in eager; that lets a unit in the last place differ."""

    def fn(*xs: Tensor) -> Any:
        return [(x @ y.t(), F.linear(x, y, x[0, :40])) for x, y in zip(xs[::2], xs[1::2])]

    xs = [torch.randn(m, 72).to(d) for d in FLOAT8 for m in (33, 40)]
    for d, x, y, got in zip(FLOAT8, xs[::2], xs[1::2], on_device(fn, device_name, profile)(*xs)):
        exact = x.double() @ y.double().t()
        for found, want in zip(got, (exact, exact + x[0, :40].double()), strict=True):
            assert found.dtype is d
            half_a_unit(found, want)


@pytest.mark.parametrize("profile", PROFILES)
def test_scaled_products(device_name: str, profile: str) -> None:
    """``_scaled_mm``: scales of one element each, or of rows and columns; with a bias."""
    x, y = (torch.randn(m, 80).to(torch.float8_e4m3fn) for m in (37, 48))
    one, other, bias = torch.tensor(1.75), torch.tensor([0.3]), torch.randn(48).bfloat16()
    rows, columns = torch.rand(37, 1) + 0.5, torch.rand(1, 48) + 0.5

    def fn(x: Tensor, y: Tensor) -> Any:
        return (
            torch._scaled_mm(x, y.t(), one, other, out_dtype=torch.float32),
            torch._scaled_mm(x, y.t(), one, other, bias=bias, out_dtype=torch.bfloat16),
            torch._scaled_mm(x, y.t(), rows, columns, out_dtype=torch.bfloat16),
            torch._scaled_mm(x, y.t(), one, other),
        )

    exact = x.double() @ y.double().t()
    single = exact * one.double() * other.double()
    wanted = (single, single + bias, exact * rows * columns, single)
    # Not eager's: before 2.12 it has no scales of rows and columns on CPUs.
    dtypes = (torch.float32, torch.bfloat16, torch.bfloat16, x.dtype)
    results = on_device(fn, device_name, profile)(x, y)
    for got, want, dtype in zip(results, wanted, dtypes, strict=True):
        assert got.dtype is dtype
        half_a_unit(got, want)


@pytest.mark.parametrize("profile", PROFILES)
def test_writes_of_float8_through_indices(device_name: str, profile: str) -> None:
    """As into a cache of keys."""
    at = torch.tensor([3, 0])

    def fn(*xs: Tensor) -> Any:
        return [x.index_put((at,), y) for x, y in zip(xs[::2], xs[1::2], strict=True)]

    xs = [codes(d)[torch.randperm(256)[: 6 * n]].reshape(n, 6) for d in FLOAT8 for n in (5, 2)]
    for got, want in zip(on_device(fn, device_name, profile)(*xs), fn(*xs), strict=True):
        assert torch.equal(bytes_of(got), bytes_of(want))


@pytest.mark.parametrize("profile", PROFILES)
def test_arithmetic_of_unsigned_integers(device_name: str, profile: str) -> None:
    """What eager has: products and bits, comparisons with ==, sums as int64, floats as results."""

    def fn(*xs: Tensor) -> Any:
        return [
            y
            for x in xs
            for y in (
                *(x * x.roll(1, 1), x & x.t().reshape(4, 6), x | 5, x ^ x.roll(2, 0)),
                *(x == x.roll(2, 0), x != 7, x.sum(0), x.prod(1), x.sum()),
                *(x + torch.ones(6), x / x.roll(2, 0), x.sqrt(), x - torch.ones(6).half()),
            )
        ]

    xs = [numbers_of(d) for d in UNSIGNED]
    for got, want in zip(on_device(fn, device_name, profile)(*xs), fn(*xs), strict=True):
        assert got.dtype is want.dtype
        if want.is_floating_point():
            torch.testing.assert_close(got, want, equal_nan=True)
        else:
            assert torch.equal(bytes_of(got), bytes_of(want))


@pytest.mark.parametrize("profile", PROFILES)
def test_conversions_of_unsigned_integers(device_name: str, profile: str) -> None:
    others = (*floats(device_name), torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool)

    def fn(*xs: Tensor) -> Any:
        return [x.to(d) for x in xs for d in (*others, *UNSIGNED)]

    integers = torch.tensor([0, 1, -1, 127, 200, 40000, 70000, 2**31, -(2**40) + 3, 2**62 + 5])
    small = torch.tensor([0.0, -0.0, 0.9, 1.5, 250.7, 40000.5, 65535.0])
    xs = [*(numbers_of(d) for d in UNSIGNED), integers, integers.int(), small, small.half()]
    for got, want in zip(on_device(fn, device_name, profile)(*xs), fn(*xs), strict=True):
        assert got.dtype is want.dtype
        assert torch.equal(bytes_of(got), bytes_of(want))


@pytest.mark.parametrize("profile", PROFILES)
def test_large_floats_to_unsigned_integers(device_name: str, profile: str) -> None:
    x = torch.tensor([4e9, 3.5e9, 2.0**31, 7.0])
    y = torch.tensor([1.8e19, 2.0**63, 9.3e18, 2.0**62, 3.0, -1.0])

    def fn(x: Tensor, y: Tensor) -> Any:
        return x.to(torch.uint32), y.to(torch.uint64)

    for got, want in zip(on_device(fn, device_name, profile)(x, y), fn(x, y), strict=True):
        assert torch.equal(bytes_of(got), bytes_of(want))


def test_other_operators_raise_what_eager_raises(device_name: str) -> None:
    for x in (numbers_of(torch.uint16), numbers_of(torch.float8_e5m2)):
        torch._dynamo.reset()
        with pytest.raises(NotImplementedError):
            compiled(lambda x: x + x, device_name)(x)
    for f in (lambda x: x * 2, lambda x: x.isinf(), lambda x: x.float().sum() + x.sum()):
        torch._dynamo.reset()
        with pytest.raises(NotImplementedError):
            compiled(f, device_name)(numbers_of(torch.float8_e4m3fn))
