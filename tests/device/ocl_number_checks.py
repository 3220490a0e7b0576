"""What ``test_ocl.py`` runs in a process of its own: operators on ``ocl`` tensors that are called
with numbers which change.

The device, and whether its memory is the host's or its own, come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn import functional as F

import ocl_inductor.eager  # noqa: F401

LAZY = "OCL_INDUCTOR_TEST_LAZY" in os.environ
DISCRETE = os.environ.get("OCL_INDUCTOR_MEMORY") in ("discrete", "buffers")
Case = Callable[[Tensor, Tensor, Tensor, float], Tensor]

MASK = torch.tensor([[True, False, True, True, False, False, True]] * 5)
ROWS = torch.tensor([0, 3])
COLUMNS = torch.tensor([[1, 0, 4, 2, 2, 3, 0]])


def _on(x: Tensor, other: Tensor) -> Tensor:
    return other.to(x.device)


def _written(function: Callable[[Tensor], object], x: Tensor) -> Tensor:
    y = x.clone()
    function(y)
    return y


#: Of three tensors of one form and type, and a number. All types:
ARITHMETIC: dict[str, Case] = {
    "add": lambda x, y, z, a: x + a,
    "add alpha": lambda x, y, z, a: torch.add(x, y, alpha=a),
    "add_ alpha": lambda x, y, z, a: _written(lambda t: t.add_(y, alpha=a), x),
    "add out": lambda x, y, z, a: torch.add(x, y, alpha=a, out=torch.empty_like(x)),
    "add both": lambda x, y, z, a: torch.add(x, a, alpha=a),
    "sub": lambda x, y, z, a: x - a,
    "sub alpha": lambda x, y, z, a: torch.sub(x, y, alpha=a),
    "rsub": lambda x, y, z, a: a - x,
    "mul": lambda x, y, z, a: x * a,
    "mul_": lambda x, y, z, a: _written(lambda t: t.mul_(a), x),
    "no dimensions": lambda x, y, z, a: x[0, 0] * a,
    "transposed": lambda x, y, z, a: x.t() * a,
    "eq": lambda x, y, z, a: x == a,
    "ne": lambda x, y, z, a: x.clone().ne_(a),
    "lt": lambda x, y, z, a: x < a,
    "le": lambda x, y, z, a: x <= a,
    "gt": lambda x, y, z, a: x > a,
    "ge": lambda x, y, z, a: x >= a,
    "clamp": lambda x, y, z, a: x.clamp(-a, a),
    "clamp below": lambda x, y, z, a: x.clamp(min=a),
    "clamp_": lambda x, y, z, a: _written(lambda t: t.clamp_(-a, a), x),
    "clamp_min": lambda x, y, z, a: x.clamp_min(a),
    "clamp_max": lambda x, y, z, a: x.clamp_max(a),
    "fill": lambda x, y, z, a: torch.fill(x, a),
    "fill_": lambda x, y, z, a: _written(lambda t: t[1:].fill_(a), x),
    "full": lambda x, y, z, a: torch.full((3,), a, dtype=x.dtype, device=x.device),
    "full_like": lambda x, y, z, a: torch.full_like(x, a),
    "setitem": lambda x, y, z, a: _written(lambda t: t.__setitem__((1, slice(2, 5)), a), x),
    "masked_fill": lambda x, y, z, a: x.masked_fill(_on(x, MASK), a),
    "masked_fill_": lambda x, y, z, a: _written(lambda t: t.masked_fill_(_on(x, MASK), a), x),
    "index_fill": lambda x, y, z, a: x.index_fill(0, _on(x, ROWS), a),
    "scatter": lambda x, y, z, a: x.scatter(0, _on(x, COLUMNS), a),
    "where": lambda x, y, z, a: torch.where(x > y, x, a),
    "pad": lambda x, y, z, a: F.pad(x, (1, 1), value=a),
    "addcmul": lambda x, y, z, a: torch.addcmul(x, y, z, value=a),
    "addcmul_": lambda x, y, z, a: _written(lambda t: t.addcmul_(y, z, value=a), x),
    "remainder": lambda x, y, z, a: torch.remainder(x, a),
    "fmod": lambda x, y, z, a: torch.fmod(x, a),
    "floor_divide": lambda x, y, z, a: x // a,
    "div": lambda x, y, z, a: x / a,
    "div floor": lambda x, y, z, a: torch.div(x, a, rounding_mode="floor"),
    "div trunc": lambda x, y, z, a: torch.div(x, a, rounding_mode="trunc"),
    "foreach add": lambda x, y, z, a: torch.cat(torch._foreach_add([x, y], a)),
    "foreach mul": lambda x, y, z, a: torch.cat(torch._foreach_mul([x, y], [a, a + 1])),
}  # fmt: skip
#: Real numbers only.
REAL: dict[str, Case] = {
    "pow": lambda x, y, z, a: x.abs().pow(a),
    "pow_": lambda x, y, z, a: _written(lambda t: t.pow_(a), x.abs()),
    "base": lambda x, y, z, a: a**x,
    "reciprocal": lambda x, y, z, a: a / (x.abs() + 1),
    "xlogy": lambda x, y, z, a: torch.xlogy(x, a),
    "copysign": lambda x, y, z, a: torch.copysign(x, -a),
    "lerp": lambda x, y, z, a: torch.lerp(x, y, a / 4),
    "lerp_": lambda x, y, z, a: _written(lambda t: t.lerp_(y, a / 4), x),
    "addcdiv": lambda x, y, z, a: torch.addcdiv(x, y, z.abs() + 1, value=a),
    "addcdiv_": lambda x, y, z, a: _written(lambda t: t.addcdiv_(y, z.abs() + 1, value=-a), x),
    "threshold": lambda x, y, z, a: F.threshold(x, a, a + 1),
    "hardtanh": lambda x, y, z, a: F.hardtanh(x, -a, a),
    "leaky_relu": lambda x, y, z, a: F.leaky_relu(x, a),
    "elu": lambda x, y, z, a: F.elu(x, a),
    "celu": lambda x, y, z, a: F.celu(x, a),
    "softplus": lambda x, y, z, a: F.softplus(x, a),
    "hardshrink": lambda x, y, z, a: F.hardshrink(x, a),
    "softshrink": lambda x, y, z, a: F.softshrink(x, a),
    "addmm": lambda x, y, z, a: torch.addmm(x[:, :5], y, z.t(), alpha=a, beta=a + 1),
    "baddbmm": lambda x, y, z, a: torch.baddbmm(x[None, :, :5], y[None], z.t()[None], alpha=a),
    "addmv": lambda x, y, z, a: torch.addmv(x[:, 0], y, z[0], alpha=a, beta=a),
    "addr": lambda x, y, z, a: torch.addr(x, y[:, 0], z[0], alpha=a),
    "layer_norm": lambda x, y, z, a: F.layer_norm(x, (7,), eps=a),
    "batch_norm": lambda x, y, z, a: F.batch_norm(x, z[0], y[0].abs() + 1, eps=a),
    "group_norm": lambda x, y, z, a: F.group_norm(x, 7, eps=a),
    "huber": lambda x, y, z, a: F.huber_loss(x, y, delta=a),
    "smooth_l1": lambda x, y, z, a: F.smooth_l1_loss(x, y, beta=a),
    "nan_to_num": lambda x, y, z, a: torch.nan_to_num(torch.where(x > 0, x, math.nan), a),
    "logit": lambda x, y, z, a: torch.logit(x.sigmoid(), a / 10),
    "vector_norm": lambda x, y, z, a: torch.linalg.vector_norm(x, a),
    "renorm": lambda x, y, z, a: torch.renorm(x, 2, 0, a),
    "foreach lerp": lambda x, y, z, a: torch._foreach_lerp([x], [y], a / 4)[0],
    "foreach addcdiv": lambda x, y, z, a: torch._foreach_addcdiv([x], [y], [z.abs() + 1], a)[0],
}  # fmt: skip

#: These are compiled for a few numbers, and then run on the host.
OTHERS = (
    "layer_norm", "batch_norm", "group_norm", "huber", "smooth_l1", "nan_to_num", "logit",
    "vector_norm", "renorm",
)  # fmt: skip
#: And these for half-precision numbers, whose products matrix units have.
PRODUCTS = ("addmm", "baddbmm", "addmv", "addr")
#: What is rounded jumps: the CPU in the type itself says where.
ROUNDED = ("remainder", "fmod", "floor_divide", "div floor", "div trunc")

#: Each more than twice as often as a form of an operator is compiled for other numbers.
REALS = (0.5, 1.25, 2.0, 0.1, 3.7, 1.0, 0.30000001192092896, 2.5, 1.1, 0.7, 1e-3)
INTEGERS = (3, 1, 2, 7, 5, 11, 4, 100, 6, 9)


def given(dtype: torch.dtype) -> list[Tensor]:
    """Three new tensors. Halves of small integers: some are equal to a number."""
    numbers = torch.randint(-8, 9, (3, 5, 7))
    if not dtype.is_floating_point:
        return list((numbers.abs() if dtype == torch.uint8 else numbers).to(dtype))
    return list(
        torch.where(torch.rand(numbers.shape) < 0.3, numbers / 2, torch.randn(numbers.shape)).to(
            dtype
        )
    )


def poison() -> None:
    """Have the memory that results get hold what shows."""
    for elements in (1, 8, 64, 512):
        kept = [torch.empty(elements, device="ocl").fill_(math.nan) for _ in range(6)]
        del kept


def work() -> tuple[int, int]:
    """Graphs that were compiled, and operators that ran on the host."""
    own = counters["opencl"]
    return own["graphs"], sum(n for key, n in own.items() if key.startswith("eager on host"))


def check(name: str, dtype: torch.dtype, numbers: tuple[float, ...]) -> None:
    """Compare with the CPU, where real numbers are computed in float64."""
    case = {**ARITHMETIC, **REAL}[name]
    torch.manual_seed(0)
    before = (0, 0)
    for n, a in enumerate(numbers):
        if n == 3:
            before = work()
        x = given(dtype)
        own = case(*x, a)
        real = dtype.is_floating_point and own.dtype != torch.bool
        wide = case(*(y.double() for y in x), a) if real and name not in ROUNDED else own
        if real:  # what is too large for the type is infinite
            wide = wide.to(dtype).double()
        poison()
        found = case(*(y.to("ocl") for y in x), a)
        assert (found.device.type, found.dtype, found.shape) == ("ocl", own.dtype, own.shape)
        # As far as the CPU's own result is from the real one, and a little.
        error = torch.finfo(dtype).eps * 16 if real else 0.0
        torch.testing.assert_close(
            found.cpu().to(wide.dtype),
            wide,
            rtol=error,
            atol=error,
            equal_nan=True,
            msg=lambda m, a=a: f"{a}: {m}",
        )
    # One for the first number, one for all others.
    # Negative numbers for what has none are eager's to decide on.
    wraps = dtype == torch.uint8 and name in ("clamp", "clamp_")
    products = dtype == torch.float16 and name in PRODUCTS
    # PyTorch itself calls other operators for some numbers (addr with 1.0): another lazy graph.
    if DISCRETE and not LAZY and name not in OTHERS and not wraps and not products:
        assert work() == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*ARITHMETIC, *REAL])
def test_real_numbers(name: str, dtype: torch.dtype) -> None:
    check(name, dtype, REALS)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_integers(name: str, dtype: torch.dtype) -> None:
    check(name, dtype, INTEGERS)
