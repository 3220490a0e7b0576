"""Division of integers by zero raises, as in eager; whatever else, the quotients are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import compiled, two_drivers

from ocl_inductor.errors import IntegerDivisionError

each_driver = pytest.mark.parametrize("driver", two_drivers())
OPERATORS = {
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}


def integers(*size: int, dtype: torch.dtype) -> torch.Tensor:
    """None of them 0."""
    magnitudes = torch.randint(1, 100, size)
    signs = torch.randint(0, 2, size) * 2 - 1 if dtype.is_signed else torch.ones(size)
    return (magnitudes * signs).to(dtype)


@pytest.mark.parametrize("profile", ["vector", "simt"])
@pytest.mark.parametrize("name", OPERATORS)
@each_driver
def test_zero_among_divisors(name: str, profile: str, driver: str) -> None:
    operator = OPERATORS[name]
    for dtype in (torch.int64, torch.int8):
        a, b = integers(7, 33, dtype=dtype), integers(7, 33, dtype=dtype)
        with_zero = b.clone()
        with_zero[4, 30] = 0  # at the end of a row, where there are no whole vectors
        torch.compiler.reset()
        f = compiled(operator, driver, profile=profile)
        for _ in range(3):  # through each way of a call, and after an error
            assert torch.equal(f(a, b), operator(a, b))
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                operator(a, with_zero)
            with pytest.raises(IntegerDivisionError, match=r"ZeroDivisionError.*in aten\."):
                f(a, with_zero)


@each_driver
def test_beside_other_operators(driver: str) -> None:
    """In a reduction, and with a divisor of fewer dimensions."""

    def f(a: Any, b: Any) -> Any:
        return (a % b).sum(-1), (a // b.abs()) * 2.5

    a, b = integers(40, 50, dtype=torch.int64), integers(50, dtype=torch.int64)
    run = compiled(f, driver)
    for found, expected in zip(run(a, b), f(a, b), strict=True):
        assert torch.equal(found, expected)
    b[13] = 0
    with pytest.raises(IntegerDivisionError):
        run(a, b)


@each_driver
def test_zero_that_is_known(driver: str) -> None:
    a = integers(5, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
        compiled(lambda a: a % 0, driver)(a)
    # Floats, no elements, and divisors of which none can be 0: no check, and no error.
    x = torch.tensor([1.0, -2.0])
    zero = torch.zeros(2)
    torch.testing.assert_close(
        compiled(lambda x, z: x % z, driver)(x, zero), x % zero, equal_nan=True
    )
    empty = a[:0]
    assert compiled(lambda a, b: a // b, driver)(empty, empty).shape == (0,)
    assert torch.equal(
        compiled(lambda a: a % (torch.arange(5) + 1), driver)(a), a % (torch.arange(5) + 1)
    )
