"""Products and convolutions of bfloat16 by a CPU's matrix unit: every layout, edge and size."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import bf16_checks
import pytest
import torch
from agreement import compiled, two_drivers
from bf16_checks import CONVOLUTIONS, NAN, check, framed, name_of, narrow, unframed
from torch import nn
from torch.nn import functional as F

from ocl_inductor.device.select import select_device
from ocl_inductor.lowering.conv import narrow_conv
from ocl_inductor.lowering.matmul import narrow_product

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
INFINITY = float("inf")

#: Columns of a panel, one group of 32, two or three; and blocks of rows.
PARTITIONS = [(32, 1), (32, 3), (64, 2), (96, 2)]
each_partition = pytest.mark.parametrize("partition", PARTITIONS, ids=name_of)

#: The result's rows as rows of the unit's tiles, and its columns.
either_way = pytest.mark.parametrize("turned", [False, True], ids=["plain", "turned"])


@pytest.fixture
def taken(driver: str, taken: list[str]) -> list[str]:
    """The templates that are lowered to, where the processor has the unit."""
    if not select_device(driver).info.amx:
        pytest.skip("the CPU has no matrix unit (AMX), or the driver does not reach it")
    return taken


@pytest.fixture
def forced(
    partition: tuple[int, int], taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The same; each product and convolution is shared out in one way."""
    nr, mb = partition
    real = narrow_product.partition_of_panels

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return dataclasses.replace(real(*args, **kwargs), nr=nr, mb=mb)

    for module in (narrow_product, narrow_conv):
        monkeypatch.setattr(module, "partition_of_panels", chosen)
    return taken


@pytest.fixture
def one_way(turned: bool, taken: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The same; the transposed product is computed always, or never."""
    real = narrow_product._turned

    def chosen(*args: Any) -> Any:
        return dataclasses.replace(real(*args), time=-1.0 if turned else INFINITY)

    monkeypatch.setattr(narrow_product, "_turned", chosen)
    return taken


def products(
    a: torch.Tensor, at: torch.Tensor, b: torch.Tensor, bt: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Of A, whose transpose is given too, and of B: unit strides in each of the dimensions."""
    return a @ b, at.t() @ bt.t(), a @ bt.t(), at.t() @ b


def operands(make: Callable[..., torch.Tensor], m: int, k: int, n: int) -> list[torch.Tensor]:
    return [make(m, k), make(k, m), make(k, n), make(n, k)]


def products_of_framed(*matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of several sizes, two layouts of each: every one of an operand.

    Each matrix lies within a frame of NaN, of which nothing may get into a sum.
    """
    found: list[torch.Tensor] = []
    for i in range(0, len(matrices), 4):
        a, at, b, bt = map(unframed, matrices[i : i + 4])
        found += products(a, at, b, bt)[:2]
    return tuple(found)


@each_driver
@pytest.mark.parametrize("lengths", [(16, 17, 31), (32, 33, 63), (64, 65, 770)], ids=name_of)
def test_sums_of_any_length(driver: str, taken: list[str], lengths: tuple[int, ...]) -> None:
    matrices = [x for k in lengths for x in operands(framed, 37, k, 50)]
    check(products_of_framed, *matrices, driver=driver)
    assert taken == ["narrow_gemm"] * 6


@each_driver
@either_way
@pytest.mark.parametrize("columns", [(5, 16, 17, 31), (32, 33, 50, 130)], ids=name_of)
def test_columns_of_any_number(driver: str, one_way: list[str], columns: tuple[int, ...]) -> None:
    matrices = [x for n in columns for x in operands(framed, 37, 35, n)]
    check(products_of_framed, *matrices, driver=driver)
    assert one_way == ["narrow_gemm"] * 8


@each_driver
@either_way
def test_whole_tiles(driver: str, one_way: list[str]) -> None:
    check(products, *operands(narrow, 64, 96, 64), driver=driver)
    assert one_way == ["narrow_gemm"] * 4


@each_driver
def test_other_layouts(driver: str, taken: list[str]) -> None:
    """Strides of 2 are copied; those of 0 are not."""

    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        every_second = a[:, ::2] @ b[:, ::2]
        repeated = a[:1, ::2].expand(40, -1) @ b
        return every_second, repeated, a[::2, ::2] @ b[:, 3:-4], c[1:, 5:].t() @ c[1:, 4:-1]

    check(function, narrow(41, 70), narrow(35, 90), narrow(36, 77), driver=driver)
    assert taken.count("narrow_gemm") == 4


@each_driver
@either_way
def test_rows_and_columns_not_known_before(driver: str, one_way: list[str]) -> None:
    def function(a: torch.Tensor, at: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a @ b, at.t() @ b

    run = compiled(function, driver, dynamic=None)
    wide, tall, columns = framed(110, 33), framed(33, 110), framed(33, 140)
    for rows in (33, 100, *range(2, 33)):
        a, at = unframed(wide)[:rows], unframed(tall)[:, :rows]
        b = unframed(columns)[:, : 5 * rows % 129 + 2]
        torch._dynamo.mark_dynamic(a, 0)
        torch._dynamo.mark_dynamic(at, 1)
        torch._dynamo.mark_dynamic(b, 1)
        check(function, a, at, b, driver=driver, run=run)
    assert one_way == ["narrow_gemm"] * 2, "not once for all numbers of rows"


@each_driver
@either_way
@each_partition
def test_partitions(driver: str, forced: list[str], one_way: list[str]) -> None:
    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *matrices, batches, few = tensors
        a, at, b, bt = map(unframed, matrices)
        batches = unframed(batches)
        return *products(a, at, b, bt)[:2], batches @ batches.mT, few @ b

    matrices = operands(framed, 203, 49, 130)
    check(function, *matrices, framed(2, 70, 64), narrow(7, 49), driver=driver)
    assert forced == ["narrow_gemm"] * 4


@each_driver
def test_batches(driver: str, taken: list[str]) -> None:
    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b, bt, one, other, matrix = tensors
        return a @ b, a @ bt.mT, one @ other, other.mT @ b, a @ matrix

    a, b, bt = narrow(3, 5, 33, 64), narrow(3, 5, 64, 40), narrow(3, 5, 17, 64)
    one, other, matrix = narrow(3, 1, 33, 64), narrow(5, 64, 40), narrow(64, 40)
    check(function, a, b, bt, one, other.mT.contiguous().mT, matrix, driver=driver)
    assert taken == ["narrow_gemm"] * 5


@each_driver
def test_heads_of_attention(driver: str, taken: list[str]) -> None:
    """They lie side by side in the rows of what comes in and of what goes out."""

    def function(query: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        heads = query.transpose(1, 2)
        joined = (weights @ heads).transpose(1, 2).reshape(2, 20, 96)
        return heads @ heads.mT, joined

    check(function, narrow(2, 20, 3, 32), narrow(2, 3, 20, 20), driver=driver)
    assert taken == ["narrow_gemm"] * 2


@each_driver
def test_bias_and_activation_are_fused(driver: str, taken: list[str]) -> None:
    bf16_checks.check_bias_and_activation(driver=driver)
    assert taken == ["narrow_gemm"]


@each_driver
def test_infinities_and_nan(driver: str, taken: list[str]) -> None:
    a, b = narrow(40, 65), narrow(65, 50)
    a[3, 5], a[7, 0], a[20, 64] = INFINITY, NAN, -INFINITY
    b[9, 2], b[63, 39], b[64, 49] = -INFINITY, NAN, INFINITY
    found = compiled(lambda a, b: (a @ b, (b.t() @ a.t()).t()), driver)(a, b)
    want = (a.float() @ b.float()).bfloat16()
    for got in found:
        torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2, equal_nan=True)
    assert taken == ["narrow_gemm"] * 2


@each_driver
def test_what_does_not_fill_tiles_goes_another_way(driver: str, taken: list[str]) -> None:
    check(torch.matmul, narrow(400, 15), narrow(15, 40), driver=driver)
    check(torch.matmul, narrow(4, 128), narrow(128, 40), driver=driver)
    check(torch.matmul, narrow(400, 128), narrow(128, 4), driver=driver)
    check(F.conv2d, narrow(2, 4, 20, 20), narrow(8, 4, 3, 3), driver=driver)
    assert not {"narrow_gemm", "narrow_conv"} & set(taken)


MORE_CONVOLUTIONS = [
    (nn.Conv2d(21, 40, 3, padding=1), (2, 21, 9, 10)),
    (nn.Conv2d(33, 70, 3, stride=2), (2, 33, 11, 9)),
    (nn.Conv2d(33, 130, 1, stride=2), (1, 33, 13, 9)),
    (nn.Conv2d(5, 17, 7, stride=2, padding=3), (2, 5, 21, 19)),
    (nn.Conv2d(42, 66, 3, padding=1, groups=2), (2, 42, 7, 5)),
    (nn.Conv2d(66, 40, (2, 3), dilation=(1, 2), groups=2, stride=(2, 1)), (2, 66, 8, 9)),
    (nn.Conv2d(64, 33, 3), (1, 64, 3, 3)),
    (nn.Conv1d(21, 33, 4, dilation=3), (2, 21, 40)),
    (nn.Conv3d(5, 20, (2, 3, 1), stride=(1, 2, 1), padding=(0, 1, 0)), (2, 5, 4, 7, 6)),
]


@each_driver
@pytest.mark.parametrize("layer, size", CONVOLUTIONS + MORE_CONVOLUTIONS, ids=name_of)
@pytest.mark.parametrize("kept", [True, False])
def test_convolutions(driver: str, taken: list[str], layer: Any, size: Any, kept: bool) -> None:
    bf16_checks.check_convolution(layer, narrow(*size), kept=kept, driver=driver)
    assert "narrow_conv" in taken


class _Several(nn.Module):
    """Convolutions of one input, compiled together."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.Conv2d(18, 130, 3, padding=1),
                nn.Conv2d(18, 140, 3, stride=2, groups=2),
            ]
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


@each_driver
@each_partition
@pytest.mark.parametrize("kept", [True, False])
def test_partitions_of_convolutions(driver: str, forced: list[str], kept: bool) -> None:
    bf16_checks.check_convolution(_Several(), narrow(2, 18, 13, 11), kept=kept, driver=driver)
    assert forced.count("narrow_conv") == 2


@each_driver
@pytest.mark.parametrize("groups", [1, 2])
def test_nan_beside_a_window(driver: str, taken: list[str], groups: int) -> None:
    """In channels that are not read, in pixels of other windows, in weights of other channels."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x.permute(0, 3, 1, 2)[:, 1:43], weight, groups=groups)

    x, weight = narrow(2, 9, 8, 44), narrow(40, 42 // groups, 3, 3)
    x[..., 0], x[..., 43] = NAN, INFINITY
    x[0, 4, 4, 5], x[1, 0, 0, 42] = NAN, -INFINITY
    weight[7, 3, 1, 2], weight[21, 20, 2, 2], weight[39, 0, 0, 0] = NAN, INFINITY, NAN
    got, want = compiled(function, driver)(x, weight), function(x.double(), weight.double())
    torch.testing.assert_close(got, want.bfloat16(), rtol=1e-2, atol=1e-2, equal_nan=True)
    assert want.isfinite().float().mean() > 0.5
    assert "narrow_conv" in taken


@each_driver
def test_a_convolution_of_one_pixel_is_a_product(driver: str, taken: list[str]) -> None:
    check(F.conv2d, narrow(2, 33, 9, 11), narrow(40, 33, 1, 1), driver=driver)
    assert taken == ["narrow_gemm"]


@each_driver
def test_images_of_any_number(driver: str, taken: list[str]) -> None:
    bf16_checks.check_images_of_any_number(driver=driver)
    assert "narrow_conv" in taken


@each_driver
def test_gradients(driver: str, taken: list[str]) -> None:
    bf16_checks.check_gradients(driver=driver)
    assert "narrow_gemm" in taken and "narrow_conv" in taken


@each_driver
def test_sums_whose_rows_would_overflow_the_stack_go_another_way(
    driver: str, taken: list[str]
) -> None:
    """With weights that are packed ahead as well, where no panel counts."""
    layer, x = nn.Conv3d(1024, 32, 3, padding=1).bfloat16().eval(), narrow(1, 1024, 2, 4, 4)
    with torch.no_grad():
        got, exact = compiled(layer, driver)(x), copy.deepcopy(layer).double()(x.double())
    assert (got.double() - exact).norm() <= 2.0**-8 * exact.norm()
    assert "narrow_conv" not in taken
