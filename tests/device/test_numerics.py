"""Dtypes, shapes and layouts: every kind of value that goes in, compared with eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, agree, compiled, random, two_drivers

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
HALVES = (torch.float16, torch.bfloat16)

each_profile = pytest.mark.parametrize("profile", PROFILES)
each_driver = pytest.mark.parametrize("driver", two_drivers())


def name_of(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=name_of)


def of_sums(dtype: torch.dtype) -> dict[str, float]:
    """Tolerance of long sums, which eager rounds to a half after every step or block."""
    return {"rtol": 3e-2, "atol": 2e-1} if dtype in HALVES else {}


# -- dtypes ------------------------------------------------------------------------------------


@each_dtype
@each_profile
@each_driver
def test_pointwise(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any, y: Any, s: Any) -> Any:
        total = x + y
        return (
            total,
            x * 3,
            x * 2.5,
            x / (y.abs() + 2) if dtype is not torch.bool else x & y,
            torch.where(x > y, x, y),
            (x < y, x == y, x != 0, x >= s),
            torch.maximum(total, s),
            x.to(torch.float32).exp(),
        )

    x, y, s = random(5, 37, dtype=dtype), random(37, dtype=dtype), random(dtype=dtype)
    agree(fn, x, y, s, device=driver, profile=profile)


@each_float
@each_profile
@each_driver
def test_functions(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any) -> Any:
        positive = x.abs()
        return (
            (x.exp(), x.expm1(), positive.log(), positive.log1p(), positive.sqrt()),
            (x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.erf(), x.atan()),
            (x.floor(), x.ceil(), x.round(), x.trunc(), x.frac()),
            (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.elu(x)),
            (x**2, x**3, positive**0.5, 2.0**x, positive**1.7, x.clamp(-1, 0.5), x.sign()),
        )

    agree(fn, random(7, 41, dtype=dtype) * 3, device=driver, profile=profile)


@each_float
@each_profile
@each_driver
def test_special_values(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        return (
            (torch.maximum(x, y), torch.minimum(x, y), x.clamp(min=0), x.relu(), x.abs()),
            (x.amax(0), x.amin(1), x.argmax(1), x.argmin(0), x.max(0), x.sum(1)),
            (x == x, x != y, x < y, x >= y, ~(x < y), x.isnan(), x.isinf(), x.isfinite()),
            (x.exp(), x.tanh(), x.sigmoid(), F.silu(x), x.sign(), x.sqrt(), x.log(), x.erf()),
            (torch.where(x != x, y, x), x.bool(), x.nan_to_num(), -x, x * 0, 1 / x),
            (x.softmax(1), torch.copysign(y, x)),
        )

    inf, nan = float("inf"), float("nan")
    values = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, torch.finfo(dtype).max, torch.finfo(dtype).tiny]
    x = torch.tensor(values, dtype=dtype).repeat(9).view(9, 9)
    agree(fn, x, x.t().contiguous(), device=driver, profile=profile, reference=False)


@each_dtype
@each_profile
@each_driver
def test_reductions(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any) -> Any:
        arg = x if dtype is not torch.bool else x.to(torch.int8)
        return (
            (x.sum(), x.sum(0), x.sum(1), x.sum((0, 2), keepdim=True)),
            (x.amax(1), x.amin((0, 1)), arg.max(2), arg.min(0)),
            (arg.argmax(1), arg.argmin(-1), arg.argmax()),
            (x.any(1), x.all(0), x.any(), (x != 0).sum(1)),
            x.float().mean(1),
            x[:2].prod(0),
        )

    x = random(5, 37, 3, dtype=dtype)
    agree(fn, x, device=driver, profile=profile, **of_sums(dtype))


@each_float
@each_profile
@each_driver
def test_norms(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any, w: Any, b: Any) -> Any:
        return (
            (x.softmax(1), x.softmax(0), x.log_softmax(1), x.logsumexp(0)),
            F.layer_norm(x, (37,), w, b),
            (x.mean(), x.var(1), x.std(0), torch.var_mean(x)),
            x.norm(dim=1),
        )

    tensors = random(9, 37, dtype=dtype), random(37, dtype=dtype), random(37, dtype=dtype)
    loose = {"rtol": 2e-2, "atol": 2e-2} if dtype in HALVES else {}
    agree(fn, *tensors, device=driver, profile=profile, **loose)


@each_dtype
@each_profile
@each_driver
def test_structure(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any, y: Any, i: Any, m: Any) -> Any:
        scattered = y.t().scatter(1, i.t().abs() % 9 * 0 + torch.arange(5), x[:9, :5])
        return (
            (torch.cat([x, y]), torch.stack([x, x], 1), F.pad(x, (3, 2)), x.t().contiguous()),
            (x[i[:, 0]], x.gather(0, i.abs()), x[:, torch.tensor([-1, 0, 3])]),
            (x.masked_fill(m, 1), x.flip(1), x.roll(2, 0), x[1::2, ::3]),
            (x.expand(2, -1, -1) + x, x.tril(), scattered),
        )

    x, y = random(11, 9, dtype=dtype), random(7, 9, dtype=dtype)
    i, m = torch.randint(-11, 11, (5, 9)) % 11, torch.rand(11, 9) < 0.5
    agree(fn, x, y, i, m, device=driver, profile=profile)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS), ids=name_of)
@each_profile
@each_driver
def test_accumulating(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any, i: Any, s: Any) -> Any:
        return (
            x.scatter_add(1, i, s),
            x.index_add(0, i[:, 0], s[:, :5]),
            x.index_put((i[:, 0],), s[:, :5], accumulate=True),
            x.cumsum(1),
            x.cumsum(0),
        )

    x, s = random(17, 5, dtype=dtype), random(17, 9, dtype=dtype)
    i = torch.randint(0, 5, (17, 9))
    agree(fn, x, i, s, device=driver, profile=profile, **of_sums(dtype))


@each_float
@each_profile
@each_driver
def test_products(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any, w: Any, b: Any, image: Any, taps: Any) -> Any:
        return (
            F.linear(x, w, b).relu(),
            x @ w.t(),
            x.expand(3, -1, -1).bmm(w.t().expand(3, -1, -1)),
            F.conv2d(image, taps, b[:8], padding=1),
            F.conv2d(image, taps[:, :1].repeat(3, 1, 1, 1)[:6], groups=3, stride=2),
        )

    tensors = [(5, 19), (23, 19), (23,), (2, 3, 9, 7), (8, 3, 3, 3)]
    loose = {"rtol": 3e-2, "atol": 2e-1} if dtype in HALVES else {}
    agree(fn, *(random(*s, dtype=dtype) for s in tensors), device=driver, profile=profile, **loose)


@each_dtype
@each_driver
def test_conversions(dtype: torch.dtype, driver: str) -> None:
    def fn(x: Any) -> Any:
        return [x.to(other) for other in DTYPES], [x.t().to(other) + 0 for other in DTYPES]

    x = random(5, 37, dtype=dtype)
    agree(fn, x.abs() if dtype.is_signed else x, device=driver)  # uint8 of -1.5 is undefined


@each_dtype
@each_driver
def test_promotion(dtype: torch.dtype, driver: str) -> None:
    def fn(x: Any, others: Any) -> Any:
        return [x + y for y in others], [x * y[0] for y in others], (x + 1, x + 1.5, x + True)

    agree(fn, random(37, dtype=dtype), [random(37, dtype=d) for d in DTYPES], device=driver)


@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
@each_profile
@each_driver
def test_integers_wrap_and_divide_as_eager(dtype: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        return (
            (x + x, x * x, x * 3, -x, x - 100, x.abs()),
            (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y), x / y),
            (x & y, x | y, x ^ y, ~x, x << 2, x >> 1),
            (x.sum(), x.prod(), x.amax(), x.to(torch.float64)),
        )

    info = torch.iinfo(dtype)
    x = torch.randint(info.min + 1, info.max, (301,)).to(dtype)
    y = random(301, dtype=dtype)
    y[y == 0] = 3
    agree(fn, x, y, device=driver, profile=profile)


def test_float64_keeps_its_digits(device_name: str) -> None:
    def fn(x: Any) -> Any:
        return x * 0.1 + 1e-300, x.exp().log(), x.sum(), x.sin(), (x @ x.t()), x.softmax(1)

    # Without float64 on the device, the host computes what needs it.
    agree(fn, random(17, 17, dtype=torch.float64), device=device_name, fallbacks=None)


# -- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 15, 16, 17, 31, 127, 1021])
@each_profile
@each_driver
def test_lengths(n: int, profile: str, driver: str) -> None:
    def fn(x: Any, t: Any) -> Any:
        return (
            (x.exp() * 2, x.t() + 1, t.cos()),
            # Of all together without signs: a sum that cancels has errors as large as itself.
            (x.sum(1), x.sum(0), t.sum(1), t.sum(0), x.abs().sum()),
            (x.softmax(1), t.softmax(1), x.argmax(1), t.argmax(1), x.cumsum(1), t.cumsum(1)),
            (x.var(1, unbiased=False), x.amax(0)),
        )

    agree(fn, random(5, n), random(n, 5), device=driver, profile=profile)


@each_profile
@each_driver
def test_large_rows(profile: str, driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.softmax(-1), x.sum(-1), x.amax(), x * 2, F.layer_norm(x, (50021,))

    agree(fn, random(3, 50021), device=driver, profile=profile)


@pytest.mark.parametrize("size", [(64, 20000), (20000, 64), (64, 141, 141)])
@each_profile
@each_driver
def test_long_sums_stay_accurate(size: tuple[int, ...], profile: str, driver: str) -> None:
    """Chains of additions are cut (blocked_sum.py): about as accurate as eager's cascade."""
    dims = (0,) if size[0] > size[1] else tuple(range(1, len(size)))

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sum(dims)

    x = random(*size)
    exact = fn(x.double())

    def error(y: torch.Tensor) -> float:
        return (y - exact).square().mean().sqrt().item()

    with torch.no_grad():
        actual = compiled(fn, driver, profile=profile)(x)
    assert error(actual) <= 3 * error(fn(x))


@each_profile
@each_driver
def test_many_rows(profile: str, driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.softmax(-1), x.sum(0), x.mean(), x.t().contiguous(), x.argmax(0)

    agree(fn, random(20011, 7), device=driver, profile=profile)


def test_no_elements(device_name: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        return (
            (x * 3, x.sum(), x.sum(0), x.sum(1), x.mean(0), x.prod(0)),
            ((x > 0).any(0), (x > 0).all(0), (x > 0).any(), (x > 0).all()),
            (x.t() @ x, x @ x.t(), torch.cat([x, y]) + 1, x.softmax(-1), x.t().softmax(-1)),
            (x.reshape(5, 0), x.expand(2, 0, 5) + 1, x.cumsum(0), y[:0] * 2, y[[]]),
        )

    agree(fn, random(0, 5), random(3, 5), device=device_name)


def test_no_images(device_name: str) -> None:
    def fn(x: Any, w: Any) -> Any:
        return F.conv2d(x, w), F.max_pool2d(x, 2), F.conv2d(x, w).mean((2, 3))

    agree(fn, random(0, 3, 8, 8), random(4, 3, 3, 3), device=device_name)


@each_profile
def test_no_dimensions(profile: str, device_name: str) -> None:
    def fn(x: Any, y: Any, b: Any) -> Any:
        return (
            (x * 3, x + y, x.sum(), x.softmax(0), x.exp().view(1), x.argmax(), x.cumsum(0)),
            (torch.where(b, x, 2.0), x.expand(3, 2) + 1, torch.stack([x, x]), x[None] * y),
        )

    agree(fn, random(), random(17, 5), torch.tensor(True), device=device_name, profile=profile)


@each_profile
def test_size_one_broadcasts(profile: str, device_name: str) -> None:
    def fn(x: Any, y: Any, z: Any) -> Any:
        return (x + y) * z, (x * y).sum(1), (x + z).softmax(2), x.expand(5, 17, 3).mean(0)

    agree(fn, random(1, 17, 1), random(5, 1, 3), random(1, 1, 1), device=device_name)


def misaligned(t: torch.Tensor, offset: int = 1) -> torch.Tensor:
    """The tensor in a storage in which it starts ``offset`` elements in."""
    storage = torch.empty(t.numel() + offset, dtype=t.dtype)
    storage[offset:] = t.flatten()
    return storage[offset:].view(t.shape)


LAYOUTS = {
    "transposed": lambda *s: random(*reversed(s)).permute(*reversed(range(len(s)))),
    "steps": lambda *s: random(*(2 * n + 1 for n in s))[tuple(slice(1, None, 2) for _ in s)],
    "expanded": lambda *s: random(1, *s[1:]).expand(*s),
    "expanded columns": lambda *s: random(*s[:-1], 1).expand(*s),
    "misaligned": lambda *s: misaligned(random(*s)),
    "channels last": lambda *s: random(*s[:-2], s[-1], s[-2]).transpose(-1, -2),
    "numpy": lambda *s: torch.from_numpy(random(*s).numpy().copy()[::-1].copy()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@each_profile
@each_driver
def test_layouts_of_inputs(layout: str, profile: str, driver: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        return (
            (x * 2 + y, x.sin(), y + x, x.t() + 1, x.clone(), x.contiguous()),
            (x.sum(0), x.sum(1), x.softmax(-1), x.argmax(0), x.mean()),
            (x @ y.t(), y @ x.t(), x[1:, ::2] * 2, x.reshape(-1) + 1, x.view(17, 3, 11) - 1),
        )

    x = LAYOUTS[layout](17, 33)
    if layout in ("transposed", "steps", "expanded columns", "channels last"):

        def reshaped(x: Any, y: Any) -> Any:
            return fn_without_views(x, y)

        def fn_without_views(x: Any, y: Any) -> Any:
            return (
                x * 2 + y,
                x.sum(0),
                x.softmax(-1),
                x @ y.t(),
                y @ x.t(),
                x[1:, ::2],
                x.reshape(-1),
            )

        agree(reshaped, x, random(17, 33), device=driver, profile=profile)
        return
    agree(fn, x, random(17, 33), device=driver, profile=profile)


@pytest.mark.parametrize("layout", LAYOUTS)
@each_driver
def test_layouts_of_images(layout: str, driver: str) -> None:
    def fn(x: Any, w: Any) -> Any:
        return F.conv2d(x, w, padding=1).relu(), F.max_pool2d(x, 2), x.mean((2, 3))

    agree(fn, LAYOUTS[layout](2, 3, 8, 10), random(7, 3, 3, 3), device=driver)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.float64, torch.bool])
def test_misaligned_of_every_width(dtype: torch.dtype, device_name: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        return torch.where(y, x, x.flip(0)), x.sum(), (y & y)

    x, y = misaligned(random(301, dtype=dtype), 3), misaligned(random(301, dtype=torch.bool))
    fallbacks = None if dtype is torch.float64 else 0  # not every device computes in float64
    agree(fn, x, y, device=device_name, fallbacks=fallbacks, **of_sums(dtype))


def test_called_again_with_other_alignment(driver: str = two_drivers()[-1]) -> None:
    function = compiled(lambda x: x.softmax(-1), driver)
    for x in (random(3, 65), misaligned(random(3, 65)), misaligned(random(3, 65), 2)):
        agree(lambda x: x.softmax(-1), x, device=driver, compiled_fn=function)


@each_profile
@each_driver
def test_indices(profile: str, driver: str) -> None:
    def fn(x: Any, i: Any, j: Any) -> Any:
        return (
            (x[i], x[i, j], x[:, j], x[..., i % 3], x[i.int()], x[i][j % 5]),
            (x.gather(1, j[:, None, None].abs() % 5 + torch.zeros(9, 4, 2).long())),
            (x.index_select(1, j.abs() % 5), x.take(i.abs()), x.index_fill(0, i[:2], 2.5)),
            (x.softmax(1)[i], x.sum(2)[i, j], (x * 2)[i] + x[i]),
        )

    i, j = torch.randint(-17, 17, (9,)), torch.randint(-5, 5, (9,))
    agree(fn, random(17, 5, 3), i, j, device=driver, profile=profile)


@each_profile
@each_driver
def test_first_of_equal_values(profile: str, driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.argmax(1), x.argmin(0), x.argmax(), x.max(1), x.min(0), x.float().argmax(1)

    agree(fn, random(9, 1033, dtype=torch.int32) // 8, device=driver, profile=profile)
    agree(fn, torch.full((9, 33), float("-inf")), device=driver, profile=profile)


@each_profile
@each_driver
def test_views_of_views(profile: str, driver: str) -> None:
    def fn(x: Any) -> Any:
        y = x.view(8, 5, 33).permute(2, 0, 1)
        z = (x + 1).view(4, 10, 33).transpose(0, 2)
        return (
            y.reshape(33, 40) * 2,
            (y + 1).reshape(-1, 5).sum(1),
            z.unflatten(1, (2, 5)).flatten(2) + 1,
            z.flip(1)[::2, 1:].contiguous(),
            torch.cat([z[:5], z[5:10] * 2], 2).softmax(1),
            x.unfold(1, 7, 5).sum(-1),
        )

    agree(fn, random(40, 33), device=driver, profile=profile)
