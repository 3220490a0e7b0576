"""Arguments that eager refuses are refused when compiled, with eager's own error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import compiled, random, two_drivers
from torch._dynamo.exc import TorchRuntimeError

from conformance.refusals import Refusal, known, refusals
from ocl_inductor.errors import UnsupportedOperatorError

# They are refused before a driver sees them.
one_driver = pytest.mark.parametrize("driver", two_drivers()[:1])


def refused(fn: Callable[..., Any], *args: Any, driver: str) -> None:
    with pytest.raises(Exception, match=r"\w") as eager:
        fn(*args)
    with pytest.raises(type(eager.value)) as found:
        compiled(fn, driver)(*args)
    # PyTorch 2.14 finds some while it traces, and says so in words of its own.
    if not isinstance(found.value, TorchRuntimeError):
        assert str(found.value) == str(eager.value)


@pytest.mark.parametrize("nd", [1, 2, 3])
@one_driver
def test_output_padding(nd: int, driver: str) -> None:
    """Smaller than stride or dilation, in each dimension."""
    f = getattr(F, f"conv_transpose{nd}d")
    x, weight = random(1, 3, *[6] * nd), random(3, 4, *[3] * nd)
    stride, extra = [1, 2, 2][-nd:], [2, 2, 2][-nd:]
    refused(lambda x, w: f(x, w, stride=2, output_padding=extra), x, weight, driver=driver)
    refused(lambda x, w: f(x, w, stride=stride, output_padding=2), x, weight, driver=driver)
    right = compiled(lambda x, w: f(x, w, stride=1, dilation=3, output_padding=2), driver)
    expected = f(x, weight, stride=1, dilation=3, output_padding=2)
    torch.testing.assert_close(right(x, weight), expected, rtol=1e-4, atol=1e-4)


@one_driver
def test_dilation(driver: str) -> None:
    x, weight = random(1, 3, 6), random(4, 3, 3)
    refused(lambda x, w: F.conv1d(x, w, dilation=0), x, weight, driver=driver)


@one_driver
def test_selected_rows(driver: str) -> None:
    """By indices of 32 or 64 bits, and of a scalar by one of them."""
    x, index = random(4, 5), torch.tensor([0, 0])
    for dtype in (torch.int8, torch.uint8, torch.int16):
        refused(lambda x, i: x.index_select(0, i), x, index.to(dtype), driver=driver)
    refused(lambda x, i: x.index_select(0, i), x[0, 0], index, driver=driver)
    select = compiled(lambda x, i: x.index_select(0, i), driver)
    assert torch.equal(select(x[0, 0], index[:1]), x[0, 0])
    assert torch.equal(select(x, index.int()), x[index])


@one_driver
def test_remainders_of_truth_values(driver: str) -> None:
    x = torch.tensor([True, False])
    refused(lambda x: x % x, x, driver=driver)
    refused(lambda x: torch.fmod(x, True), x, driver=driver)
    assert torch.equal(compiled(lambda x: x % 2, driver)(x), x % 2)


#: What takes numbers, and no truth values.
NUMBERS: dict[str, Callable[..., Any]] = {
    **{f: getattr(torch, f) for f in "abs ceil floor round trunc relu median nanmedian".split()},
    **{f: getattr(torch, f) for f in "argmax argmin trace".split()},
    "kthvalue": lambda x: torch.kthvalue(x, 1),
    "topk": lambda x: torch.topk(x, 1),
    "median.dim": lambda x: torch.median(x, 0),
    "nanmedian.dim": lambda x: x.nanmedian(-1),
    "argmax.dim": lambda x: x.argmax(0),
    "mvlgamma": lambda x: torch.mvlgamma(x + x, 1),
    "threshold": lambda x: F.threshold(x, 0, 1),
    "reflected": lambda x: F.pad(x[None], (1, 1), "reflect"),
    "gcd": lambda x: torch.gcd(x, x),
    "pow": lambda x: x**x,
    "sub": lambda x: 1 - x,
    "shift": lambda x: torch.bitwise_left_shift(x, x),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "clamp": lambda x: torch.clamp(x, x, x),
    "cross": lambda x: torch.linalg.cross(x, x),
}

#: What takes no integers either.
FRACTIONS: dict[str, Callable[..., Any]] = {
    **{f: getattr(F, f) for f in "hardswish hardsigmoid silu gelu mish celu softplus".split()},
    **{f: getattr(F, f) for f in "logsigmoid hardshrink rrelu".split()},
    "glu": lambda x: F.glu(torch.cat([x, x])),
    "round": lambda x: torch.round(x, decimals=1),
    "hypot": lambda x: torch.hypot(x, x),
    "nextafter": lambda x: torch.nextafter(x, x),
    "lerp": lambda x: torch.lerp(x, x, 1),
    "igamma": lambda x: torch.igamma(x, x),
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x[None], 2),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
    "huber_loss": lambda x: F.huber_loss(x, x),
    "unfold": lambda x: F.unfold(x[None, None], 2),
}


@pytest.mark.parametrize("name", NUMBERS)
@one_driver
def test_truth_values(name: str, driver: str) -> None:
    x = torch.eye(3, dtype=torch.int64)
    refused(NUMBERS[name], x > 0, driver=driver)
    if name not in ("trace", "reflected"):  # on the host
        compiled(NUMBERS[name], driver)(x)


@pytest.mark.parametrize("name", FRACTIONS)
@one_driver
def test_integers(name: str, driver: str) -> None:
    x = torch.arange(16).reshape(4, 4)
    refused(FRACTIONS[name], x, driver=driver)
    refused(FRACTIONS[name], x.to(torch.uint8), driver=driver)
    compiled(FRACTIONS[name], driver)(x.float())


@one_driver
def test_mixed_operands(driver: str) -> None:
    """The dtype that they have together is what counts."""
    x, truth = torch.tensor([4, 6, 9]), torch.tensor([True, False, True])
    for fn in (
        torch.gcd,
        lambda x, t: torch.clamp(t, 0, 5) + x,
        lambda x, t: torch.hypot(x, t.float()),
        lambda x, t: F.smooth_l1_loss(x, t.float()),
        lambda x, t: t**x,
    ):
        torch.testing.assert_close(compiled(fn, driver)(x, truth), fn(x, truth))
    for fn in (lambda x: True - x, lambda x: x - truth):
        refused(fn, x, driver=driver)


@one_driver
def test_bits_of_fractions(driver: str) -> None:
    x = random(5)
    for fn in (torch.bitwise_and, torch.bitwise_left_shift, torch.gcd, torch.lcm):
        refused(fn, x.half(), x.half(), driver=driver)
    refused(torch.bitwise_not, x, driver=driver)


@one_driver
def test_special_functions_of_half_types(driver: str) -> None:
    for name in "bessel_j0 erfcx ndtri log_ndtr modified_bessel_k0".split():
        refused(getattr(torch.special, name), random(5).half(), driver=driver)


@one_driver
def test_ranges_of_truth_values(driver: str) -> None:
    refused(lambda: torch.arange(5, dtype=torch.bool), driver=driver)
    truth = torch.zeros(5, dtype=torch.bool)
    refused(lambda a: torch.arange(5, out=a), truth, driver=driver)
    refused(lambda a: torch.logspace(0, 1, 5, out=a), truth, driver=driver)
    out = torch.zeros(5)
    assert torch.equal(compiled(lambda a: torch.arange(5, out=a), driver)(out), torch.arange(5.0))


@one_driver
def test_running_truth_values(driver: str) -> None:
    x = random(4, 5)
    refused(lambda x: x.cumsum(0, dtype=torch.bool), x, driver=driver)
    refused(lambda x: torch.cumprod(x, 1, dtype=torch.bool), x, driver=driver)
    refused(lambda x: x.clone().cumsum_(0), x > 0, driver=driver)
    assert torch.equal(compiled(lambda x: x.cumsum(0), driver)(x > 0), (x > 0).cumsum(0))


@one_driver
def test_results_of_another_dtype_than_out(driver: str) -> None:
    x, wide = random(4, 5), [torch.empty(5, dtype=torch.float64) for _ in range(2)]
    refused(lambda x, a, b: torch.aminmax(x, dim=0, out=(a, b)), x, *wide, driver=driver)
    refused(lambda x, a: torch.amax(x, 0, out=a), x, wide[0], driver=driver)
    index, all_of_it = torch.tensor([1, 0]), torch.empty(4, 5, dtype=torch.float64)
    refused(lambda x, a: torch.index_select(x, 0, index, out=a), x, all_of_it[:2], driver=driver)
    refused(lambda x, a: torch.take(x, index, out=a), x, wide[0][:2], driver=driver)
    refused(lambda x, a: torch.clamp(x, 0, out=a), x, all_of_it, driver=driver)
    refused(lambda x, a: torch.all(x > 0, 0, out=a), x, wide[0], driver=driver)
    refused(lambda x, a: torch.tril(x, out=a), x, all_of_it, driver=driver)
    refused(lambda x, a: torch.softmax(x, 0, out=a), x, all_of_it, driver=driver)
    out = torch.empty(5)
    assert torch.equal(compiled(lambda x, a: torch.amax(x, 0, out=a), driver)(x, out), x.amax(0))
    assert torch.equal(out, x.amax(0))


@pytest.mark.parametrize(
    ("mode", "nd"),
    [("nearest", 1), ("nearest-exact", 2), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)],
)
@one_driver
def test_images(mode: str, nd: int, driver: str) -> None:
    """Of integers, without pixels, and without channels; no images at all are fine."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=[5] * nd, mode=mode)

    refused(f, torch.randint(9, (1, 2, *[4] * nd)), driver=driver)
    refused(f, random(1, 2, *[0] * nd), driver=driver)
    refused(f, random(1, 0, *[4] * nd), driver=driver)
    assert compiled(f, driver)(random(0, 2, *[4] * nd)).shape == (0, 2, *[5] * nd)


@one_driver
def test_images_made_by_pooling(driver: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (3, 3))

    refused(f, torch.randint(9, (1, 2, 6, 6)), driver=driver)
    refused(f, random(1, 2, 0, 0), driver=driver)


@one_driver
def test_slices_of_another_shape(driver: str) -> None:
    index = torch.tensor([0, 2])
    refused(lambda x, s: x.index_add(0, index, s), random(3, 2), random(2), driver=driver)
    refused(lambda x, s: x.index_add(0, index, s), random(3, 2), random(2, 3), driver=driver)


@one_driver
def test_negative_powers_of_integers(driver: str) -> None:
    for dtype in (torch.int64, torch.uint8, torch.bool):
        refused(lambda x: x**-2, torch.tensor([1, 3]).to(dtype), driver=driver)
    x = torch.tensor([2.0, -3.0])
    torch.testing.assert_close(compiled(lambda x: x**-2, driver)(x), x**-2)


def test_a_graph_that_eager_refuses_is_not_compiled_where_it_must_be() -> None:
    f = compiled(lambda x: F.interpolate(x, scale_factor=2), two_drivers()[0], fallback="error")
    with pytest.raises(Exception, match="eager refuses") as found:
        f(torch.randint(9, (1, 1, 4, 4)))
    assert isinstance(found.value.inner_exception, UnsupportedOperatorError)


#: Of PyTorch's lists (`python -m conformance.refusals`): some that shape functions do not refuse.
SOME = ("aminmax", "bucketize", "complex", "index_add", "multinomial", "take")


@pytest.mark.filterwarnings("ignore")
def test_what_pytorchs_lists_say() -> None:
    found: list[Refusal] = list(refusals(SOME))
    assert {r.op for r in found} == set(SOME)
    wrong = {r.name for r in found if r.accepted({"device": two_drivers()[0]})}
    assert wrong <= known().keys()
