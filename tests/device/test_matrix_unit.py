"""Products by a CPU's matrix unit, made to take every size, layout and partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from evaluate import make_device

from ocl_inductor.device.cpu import matrix_unit
from ocl_inductor.device.select import select_device
from ocl_inductor.ir.index import is_static
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.matmul import matrix_product
from ocl_inductor.lowering.matmul.matrix_product import Partition
from ocl_inductor.settings import Settings
from ocl_inductor.templates.conv.matrix_conv import MATRIX_CONV_PARTS

each_driver = pytest.mark.parametrize("driver", two_drivers())
INFINITY, NAN = float("inf"), float("nan")


@pytest.fixture
def taken(driver: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The products that the unit takes."""
    if not select_device(driver).info.amx:
        pytest.skip("the CPU has no matrix unit (AMX), or the driver does not reach it")
    found: list[Any] = []
    real = matrix_product._by_partition

    def counting(*args: Any) -> Any:
        found.append(args)
        return real(*args)

    monkeypatch.setattr(matrix_product, "_by_partition", counting)
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")  # plans that were made before took other ways
    return found


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch, taken: list[Any]) -> Callable[[Partition | None], Any]:
    """Make the unit take every float32 product of known K and N, in a given partition if any."""

    def force(partition: Partition | None) -> list[Any]:
        def chosen(
            ctx: Any, dtype: torch.dtype, batch: Any, rows: Any, k: Any, n: Any
        ) -> Partition | Declined:
            if dtype is not torch.float32 or not is_static(k) or not is_static(n):
                return Declined("not for the unit")
            own = matrix_product._partition(ctx, batch, ctx.hint(rows), int(k), int(n))
            return partition or own

        monkeypatch.setattr(matrix_product, "partition_for_unit", chosen)
        return taken

    return force


def mixed(*size: int) -> torch.Tensor:
    """Numbers of very different magnitudes."""
    return random(*size) * 10.0 ** torch.randint(-6, 6, size)


@each_driver
def test_layouts_sizes_and_partitions(driver: str, always: Any) -> None:
    taken = always(Partition(nr=64, mb=2, kc=64, cost=0.0))

    a, b, c = random(75, 150), random(150, 70), random(96, 150)
    agree(
        lambda a, b, c, bias: (torch.relu(a @ b + bias), a @ c.t(), c @ b),
        a, b, c, random(70), device=driver, rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    # Columns of A, every second column of A, and rows of B where they lie.
    agree(
        lambda a, b: (a.t() @ b, a[:, ::2].t() @ b, a[:, ::2] @ b[:38]),
        random(75, 76), random(75, 96), device=driver, rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    assert len(taken) >= 6


@each_driver
def test_batches(driver: str, always: Any) -> None:
    taken = always(Partition(nr=64, mb=2, kc=64, cost=0.0))
    agree(
        lambda a, b: (a @ b, a @ b[:1, :1], a[:1] @ b, a.transpose(-1, -2) @ (a * 2)),
        random(2, 3, 40, 36), random(2, 3, 36, 64), device=driver, rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    assert len(taken) >= 4


@each_driver
def test_rows_of_any_number(driver: str, always: Any) -> None:
    taken = always(None)
    function = compiled(lambda a, b: (a @ b.t()).sin(), driver, dynamic=None)
    for rows in (70, 33, 200):
        a = random(rows, 64)
        torch._dynamo.mark_dynamic(a, 0)
        agree(
            lambda a, b: (a @ b.t()).sin(), a, random(50, 64), device=driver,
            compiled_fn=function, rtol=1e-4, atol=1e-4,
        )  # fmt: skip
    assert 1 <= len(taken) < 3, "not compiled for each number"


@each_driver
def test_nearer_to_float64_than_eager(driver: str, always: Any) -> None:
    taken = always(None)
    # Of normally distributed numbers; where a few products dominate, twice eager's at most.
    for make, times in ((random, 1.0), (mixed, 2.0)):
        a, b = make(192, 1024), make(1024, 160)
        exact = a.double() @ b.double()
        scale = a.double().abs() @ b.double().abs()  # what rounding errors are relative to
        ours, eager = ((x - exact) / scale for x in (compiled(torch.matmul, driver)(a, b), a @ b))
        assert ours.square().mean().sqrt() < times * eager.square().mean().sqrt()
        assert ours.abs().max() < 2.0**-20
    assert taken


@each_driver
def test_infinities_and_nan_go_where_eager_puts_them(driver: str, always: Any) -> None:
    always(None)
    a, b = random(100, 96), random(96, 64)
    a[3, 5], a[40, 7], a[41, 7], a[70, 0] = INFINITY, NAN, -INFINITY, INFINITY
    a[90, 9] = torch.tensor([0x7F800001], dtype=torch.int32).view(torch.float32)[0]
    b[5, :10], b[0, 3], b[20, 40] = 0, 1, -INFINITY
    a[:, 20] = 1
    agree(torch.matmul, a, b, device=driver, reference=False, rtol=1e-4, atol=1e-4)


@each_driver
@pytest.mark.parametrize(
    ("left", "right"),
    [(1e-20, 1e-10), (1e-30, 1.0), (1.0, 1e-36), (1e-42, 1.0), (1e37, 1e-3), (3e38, 1e-3)],
)
def test_numbers_near_the_ends_of_the_range(
    driver: str, left: float, right: float, always: Any
) -> None:
    always(None)
    a = torch.rand(64, 96).clamp(0.01) * left
    b = torch.rand(96, 64).clamp(0.01) * right
    got, want = compiled(torch.matmul, driver)(a, b), a.double() @ b.double()
    spacing = 2.0**-149 * 96  # of the smallest numbers, once a term
    assert torch.allclose(got.double(), want, rtol=1e-6, atol=spacing)
    assert got.isfinite().all()


@each_driver
def test_other_types_do_not_take_it(driver: str, always: Any) -> None:
    taken = always(None)
    agree(torch.matmul, random(64, 64).double(), random(64, 64).double(), device=driver)
    assert not taken


@each_driver
def test_only_large_products_take_it_and_only_if_allowed(driver: str, taken: list[Any]) -> None:
    def units(rows: int, **options: Any) -> int:
        taken.clear()
        compiled(torch.matmul, driver, **options)(random(rows, 512), random(512, 512))
        return len(taken)

    assert units(512) == 1
    assert units(8) == 0
    assert units(512, matrix_unit=False) == 0


def test_settings_turn_it_off() -> None:
    info = dataclasses.replace(select_device(two_drivers()[0]).info, profile="vector", amx=True)
    assert info.for_settings(Settings()).amx
    assert not info.for_settings(Settings(matrix_unit=False)).amx
    assert not info.for_settings(Settings(profile="simt")).amx


def test_not_permitted_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_unit.platform, "machine", lambda: "aarch64")
    assert not matrix_unit.permitted.__wrapped__()


def test_the_parts_of_a_number_sum_up_to_it() -> None:
    x = np.concatenate([np.float32([0, -0.0, 1, 3.4e38, 1e-32]),
                        np.random.default_rng().standard_normal(100, np.float32)])  # fmt: skip
    parts = MATRIX_CONV_PARTS.reference(x)
    assert (parts.astype(np.float64).sum(-1) == x).all()
    assert not (parts.view(np.uint32) & 0xFFFF).any(), "each is a bfloat16"


@pytest.mark.parametrize("units", [2, 64])
@pytest.mark.parametrize(
    "size", [(512, 768, 768), (788, 192, 576), (256, 3072, 768), (12544, 64, 256), (32, 32, 32)]
)
def test_partitions_cover_the_product_and_fit(size: tuple[int, int, int], units: int) -> None:
    ctx = LoweringContext(dataclasses.replace(make_device(), compute_units=units), Settings())
    m, k, n = size
    part = matrix_product._partition(ctx, (), m, k, n)
    assert part.nr % 32 == 0 and part.kc % 32 == 0 and part.mb >= 1
    assert part.nr * part.kc * 6 <= 900 * 1024, "parts of B fit into a second-level cache"
    assert part.nr * part.mb * 32 * 4 <= 256 * 1024 or part.kc >= k
    items = -(-n // part.nr) * -(-m // (32 * part.mb))
    assert items >= min(units, -(-n // 32) * -(-m // 32))
