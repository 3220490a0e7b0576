"""How many kernels small programs become: exact numbers, so that a lost fusion shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, agree, compiled, random, two_drivers
from programs import PROGRAMS, Program
from torch import nn
from torch._dynamo.utils import counters
from tuned import change_tuned

from ocl_inductor.lowering.matmul import product_template
from ocl_inductor.schedule import fuse
from ocl_inductor.schedule.groups import Refusal

pytestmark = pytest.mark.usefixtures("unchained")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_kernel_counts(program: Program, profile: str, driver: str) -> None:
    compiled(program.fn, driver, profile=profile)(*program.inputs())
    position = PROFILES.index(profile)
    table = counters["opencl"]
    found = table["kernels"], table["prologue_kernels"], table["fallbacks"]
    assert found == (program.kernels[position], program.prologue[position], 0)


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


ONE_KERNEL = {
    "long chain": (
        lambda x: ((x * 2 + 1).relu().sigmoid().tanh().exp() - 1).abs().sqrt().neg(),
        ((33, 17),),
    ),
    "broadcasts": (lambda x, y, z: (x + y) * z - x, ((5, 1, 7), (1, 6, 7), (7,))),
    "views between": (lambda x: (x.view(8, 5, 3).permute(2, 0, 1) * 2).exp(), ((40, 3),)),
    "rms norm": (_rms_norm, ((9, 65), (65,))),
    "norm after residual": (
        lambda x, y, w: F.layer_norm(x + y, (65,), w).relu(),
        ((9, 65), (9, 65), (65,)),
    ),
    "softmax between pointwise": (
        lambda x, m: ((x * 0.3 + m).softmax(-1) * 2).exp(),
        ((9, 65), (65,)),
    ),
    "log softmax of a sum": (lambda x, y: (x + y).log_softmax(-1), ((9, 65), (9, 65))),
    "standardised rows": (
        lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
        ((9, 65),),
    ),
    "two reductions of one input": (lambda x: (x.sum(1), (x * x).amax(1)), ((9, 65),)),
    "output and its reduction": (lambda x: ((y := x.exp()), y.sum(1)), ((9, 65),)),
    "siblings": (lambda x, y: (x + y, x - y, x * y), ((9, 65), (9, 65))),
    "glu": (lambda x: F.glu(x, 1), ((9, 64),)),
    "pad and pointwise": (lambda x: F.pad(x, (1, 2)).relu() + 1, ((9, 65),)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name: str, device_name: str) -> None:
    fn, sizes = ONE_KERNEL[name]
    agree(fn, *(random(*s) for s in sizes), device=device_name)
    assert counters["opencl"]["kernels"] == 1


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
def test_epilogue_that_chooses_lane_by_lane(driver: str, profile: str) -> None:
    """Lanes of one vector take the product or other memory: neither may be read for all of them."""

    def fn(x: Any, w: Any, y: Any) -> Any:
        product = x @ w
        return torch.cat([y[:, :7], product[:, 7:]], 1) * 2, F.pad(product[:, :13], (0, 17))

    tensors = random(19, 33), random(33, 30), random(19, 41)
    agree(fn, *tensors, device=driver, profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
def test_epilogues_of_products_cost_no_kernel(driver: str, profile: str) -> None:
    def fn(x: Any, w: Any, b: Any, r: Any) -> Any:
        return F.gelu(F.linear(x, w, b)) + r

    tensors = random(19, 33), random(40, 33), random(40), random(19, 40)
    agree(fn, *tensors, device=driver, profile=profile)
    plain = counters["opencl"]["kernels"]
    torch.compiler.reset()
    counters.clear()
    agree(F.linear, *tensors[:2], device=driver, profile=profile)
    assert counters["opencl"]["kernels"] == plain


@pytest.mark.parametrize("driver", two_drivers())
def test_parameters_are_packed_once(driver: str) -> None:
    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(33, 65), nn.Linear(65, 9)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(F.gelu(self.a(x))).softmax(-1)

    model = Mlp().requires_grad_(False)
    agree(model, random(19, 33), device=driver, reference=False)
    assert counters["opencl"]["kernels"] == 3


REFUSED = {
    "reductions over different dimensions": (
        lambda x: x.softmax(1).sum(0),
        ((33, 17),),
    ),
    "a row that few work-items would share": (lambda x: (x / x.sum()).exp(), ((1, 100000),)),
    "gather of a result": (
        lambda x: x.softmax(-1)[torch.tensor([3, 1, 2])] * 2,
        ((33, 17),),
    ),
    "after a scan": (lambda x: x.cumsum(1) + 1, ((33, 17),)),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_every_refusal_has_a_reason(
    name: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[Refusal] = []
    finish = fuse._Fuser.run

    def run(self: Any) -> Any:
        schedule = finish(self)
        refusals.extend(schedule.refusals)
        return schedule

    monkeypatch.setattr(fuse._Fuser, "run", run)
    fn, sizes = REFUSED[name]
    agree(fn, *(random(*s) for s in sizes), device=driver)
    kernels = counters["opencl"]["kernels"]
    assert kernels > 1
    assert refusals
    for refusal in refusals:
        assert refusal.kernel
        assert refusal.node
        assert len(refusal.reason) > 10, refusal


@pytest.mark.parametrize("driver", two_drivers()[:1])
def test_an_operand_that_is_read_twice_is_stored_once(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A residual sum, for the next convolution and the next sum: not what it is made of."""
    # No kernels that pack.
    change_tuned(monkeypatch, product_template, "product_limits", min_rows_of_own_panel=1)

    def fn(x: Any, residual: Any, first: Any, second: Any) -> Any:
        h = F.relu(F.conv2d(x, first) * 2 + residual)
        return F.conv2d(h, second) + h

    x, residual = (random(2, c, 12, 12).to(memory_format=torch.channels_last) for c in (32, 64))
    args = x, residual, random(64, 32, 1, 1), random(64, 64, 1, 1)
    agree(fn, *args, device=driver, profile="vector", matrix_unit=False)
    table = counters["opencl"]
    assert (table["kernels"], table["planned_peak_bytes"]) == (2, residual.nbytes)
