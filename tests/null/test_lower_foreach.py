"""Operators over lists of tensors against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import check

from ocl_inductor.lowering import families as _families  # noqa: F401  (the plain operators)
from ocl_inductor.lowering.pointwise.foreach import EACH
from ocl_inductor.support.torch_versions import ABSENT

aten = torch.ops.aten

SIZES = ((3, 5), (), (0, 2), (17,))


def arguments(target: Any, sizes: tuple[tuple[int, ...], ...]) -> list[Any]:
    """An argument of the kind that the schema names, for each that is positional."""
    args: list[Any] = []
    for argument in target._schema.arguments:
        kind = str(argument.type)
        if argument.kwarg_only or argument.name == "non_blocking":
            continue
        if kind == "List[Tensor]":
            # Positive, as roots, logarithms and powers need it; below 1 for inverse sines.
            args.append([torch.rand(s) * 0.8 + 0.1 for s in sizes])
        elif kind == "List[number]":
            args.append([0.5 + i for i in range(len(sizes))])
        elif kind == "Tensor":
            args.append(torch.tensor(0.7))
        else:
            args.append(0.6)
    return args


@pytest.mark.parametrize("name", [each.name for each in EACH if each.name != "mm"])
def test_agrees_with_eager(name: str) -> None:
    packet, _, overload = name.partition(".")
    target = getattr(getattr(aten, f"_foreach_{packet}"), overload or "default")
    check(target, *arguments(target, SIZES))


def test_products() -> None:
    # Small enough for a sum of products, which needs no device.
    if "_foreach_mm" in ABSENT:
        pytest.skip("this PyTorch has no _foreach_mm")
    a, b = ([torch.randn(3, 3) for _ in range(2)] for _ in range(2))
    check(aten._foreach_mm.default, a, b)


def test_keyword_arguments() -> None:
    a, b, c = ([torch.randn(s) for s in SIZES] for _ in range(3))
    check(aten._foreach_add.List, a, b, alpha=-1.5)
    check(aten._foreach_addcmul.Scalar, a, b, c, value=0.3)
    check(aten._foreach_addcdiv.Scalar, a, b, c)


def test_norms() -> None:
    tensors = [torch.randn(s) for s in ((3, 5), (17,))]
    check(aten._foreach_norm.Scalar, tensors)
    check(aten._foreach_norm.Scalar, tensors, float("inf"))


def test_clamping_to_nan() -> None:
    nan = float("nan")
    a, b = [torch.tensor([1.0, nan, 3.0])], [torch.tensor([nan, 2.0, 2.0])]
    check(aten._foreach_clamp_min.List, a, b)
    check(aten._foreach_clamp_max.List, a, b)
    check(aten._foreach_clamp_max.Scalar, a, 2.0)
