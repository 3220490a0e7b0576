"""Symbolic sizes: one compiled graph serves every size, with the right numbers at each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from abilities import graphs_of_pytorch
from agreement import agree, compiled, random, two_drivers
from programs import attention, frozen
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.lowering.graph import results as lowering_results

# The first and the second call differ in the symbolic size; no other dimension has one of these
# sizes (equal sizes are taken for one symbol). Around vector widths, and across tile boundaries.
SIZES = (11, 3, 17, 16, 37, 64, 127, 8, 259)
IMAGES = (9, 17, 16, 33, 21)


@dataclass(frozen=True)
class Case:
    fn: Callable[..., Any]
    inputs: Callable[[int], tuple[Any, ...]]
    sizes: tuple[int, ...] = SIZES
    atol: float | None = None


def _padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 300 - x.shape[1]), value=1.5) * 2


def _causal(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool).triu(1)
    return x.masked_fill(mask, float("-inf")).softmax(-1)


def _rotary(x: torch.Tensor) -> torch.Tensor:
    half = torch.cat([-x[..., 4:], x[..., :4]], -1)
    return half * torch.arange(x.shape[-2])[:, None].cos() + x


_linear = frozen(nn.Linear(40, 23))
_conv = frozen(nn.Conv2d(3, 10, 3, padding=1, stride=2))
_norm = frozen(nn.LayerNorm(40))
_group = frozen(nn.GroupNorm(2, 6))
_table = frozen(nn.Embedding(19, 40))

CASES = {
    "pointwise rows": Case(lambda x, y: (x * 2 + y).relu(), lambda n: (random(n, 7),) * 2),
    "pointwise columns": Case(lambda x, y: (x * 2 + y).relu(), lambda n: (random(7, n), random(n))),
    "sum of rows": Case(lambda x: x.sum(-1), lambda n: (random(7, n),)),
    "sum of columns": Case(lambda x: (x.sum(0), x.sum()), lambda n: (random(n, 7),)),
    "two symbols": Case(lambda x, y: (x[:, None] * y).sum(0), lambda n: (random(n), random(n + 5))),
    "sum over a part": Case(lambda x: (x[:, :, 1:] * 2).sum((0, 2)), lambda n: (random(2, 3, n),)),
    "argmax": Case(lambda x: (x.argmax(1), x.max(0)), lambda n: (random(7, n),)),
    "variance": Case(lambda x: (x.var(1), x.mean((0, 1))), lambda n: (random(7, n),)),
    "cumsum": Case(lambda x: x.cumsum(1), lambda n: (random(7, n),), atol=1e-3),
    "softmax": Case(lambda x: x.softmax(-1), lambda n: (random(7, n),)),
    "softmax of a batch": Case(lambda x: x.softmax(-1), lambda n: (random(n, 7),)),
    "softmax of columns": Case(lambda x: x.log_softmax(0), lambda n: (random(n, 7),)),
    "layer norm": Case(lambda x: _norm(x).relu(), lambda n: (random(2, n, 40),)),
    "group norm": Case(lambda x: _group(x), lambda n: (random(2, 6, n, 5),)),  # noqa: PLW0108
    "linear": Case(lambda x: _linear(x).relu(), lambda n: (random(n, 40),)),
    "linear of sequences": Case(lambda x: F.gelu(_linear(x)), lambda n: (random(2, n, 40),)),
    "long product": Case(lambda x, y: x @ y, lambda n: (random(9, n), random(n, 23)), atol=1e-4),
    "wide product": Case(lambda x, y: x @ y + 1, lambda n: (random(9, 13), random(13, n))),
    "attention": Case(attention, lambda n: tuple(random(2, n, 20) for _ in range(3)), atol=1e-4),
    "attention of a batch": Case(
        attention, lambda n: (random(n, 5, 20), random(n, 6, 20), random(n, 6, 20)), atol=1e-4
    ),
    "causal attention": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.2),
        lambda n: tuple(random(2, 3, n, 20) for _ in range(3)),
        atol=1e-4,
    ),
    "convolution of a batch": Case(
        lambda x: _conv(x).relu(), lambda n: (random(n, 3, 9, 7),), (4, 5, 2, 11), 1e-4
    ),
    # Modules are wrapped: the test asks a function.
    "convolution": Case(
        lambda x: _conv(x),  # noqa: PLW0108
        lambda n: (random(2, 3, n, n + 2),),
        IMAGES,
        1e-4,
    ),
    "max pool": Case(lambda x: F.max_pool2d(x, 3, 2, 1), lambda n: (random(2, 3, n, 13),), IMAGES),
    "global pool": Case(
        lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), lambda n: (random(2, 3, n, 13),), IMAGES
    ),
    "embedding": Case(lambda i: _norm(_table(i)), lambda n: (torch.randint(0, 19, (3, n)),)),
    "bags": Case(
        lambda i, w: F.embedding_bag(i, w, mode="max"),
        lambda n: (torch.randint(0, 19, (n, 3)), random(19, 5)),
    ),
    "long bags": Case(F.embedding_bag, lambda n: (torch.randint(0, 19, (4, n)), random(19, 5))),
    "bags at offsets": Case(
        lambda i, w, at: F.embedding_bag(i, w, at, mode="sum"),
        lambda n: (torch.randint(0, 19, (3 * n,)), random(19, 5), torch.arange(n) * 2),
    ),
    "range in steps": Case(
        lambda x: torch.arange(0, x.numel(), x.shape[0]) * 2.5, lambda n: (random(n, 7),)
    ),
    "range in float steps": Case(
        lambda x: torch.arange(x.shape[0], -x.shape[0], -2.0, dtype=torch.int64) * x[0, 0],
        lambda n: (random(n, 7),),
    ),
    "range of floats": Case(
        lambda x: (
            *(torch.arange(0, x.shape[0], 0.5) * 2, torch.arange(x.shape[0], -1.5, -0.3)),
            *(torch.arange(0.25, x.shape[0] * 0.7, 0.7) * 3, torch.arange(0, 1, 1 / x.shape[0])),
            torch.arange(0, x.shape[0], 0.5, dtype=torch.float16),
        ),
        lambda n: (random(n, 7),),
    ),
    "linspace": Case(
        lambda x: torch.linspace(0.1, x.shape[0], 19) + torch.linspace(-x.shape[0] / 3, 1, 19),
        lambda n: (random(n, 7),),
    ),
    "gather": Case(lambda x, i: x[i] + 1, lambda n: (random(n, 5), torch.randint(-n, n, (n + 2,)))),
    "scatter": Case(
        lambda x, i, s: x.scatter_add(1, i, s),
        lambda n: (random(n, 5), torch.randint(0, 5, (n, 9)), random(n, 9)),
    ),
    "cat": Case(lambda x, y: torch.cat([x, y * 2], 1), lambda n: (random(7, n), random(7, n + 6))),
    "cat of rows": Case(lambda x, y: torch.cat([x, y * 2]), lambda n: (random(n, 7),) * 2),
    "pad": Case(lambda x: F.pad(x, (2, 3)) * 2, lambda n: (random(7, n),)),
    "pad to a length": Case(_padded, lambda n: (random(7, n),)),
    "causal mask": Case(_causal, lambda n: (random(2, n, n),)),
    "rotary": Case(_rotary, lambda n: (random(2, n, 8),)),
    "split heads": Case(
        lambda x: x.view(2, -1, 4, 6).transpose(1, 2).softmax(-1), lambda n: (random(2, n, 24),)
    ),
    "transpose": Case(lambda x: x.t().contiguous() + 1, lambda n: (random(n, 2 * n + 1),)),
    "slices": Case(lambda x: x[:, :-1] - x[:, 1:], lambda n: (random(7, n),)),
    "steps": Case(lambda x: x[:, 1::2] * 2, lambda n: (random(7, n),)),
    "interleave": Case(
        lambda x, y: torch.stack([x, y], -1).flatten(-2), lambda n: (random(7, n),) * 2
    ),
    "repeat": Case(
        lambda x: x.repeat(2, 3) + x.repeat_interleave(2, 0).repeat(1, 3), lambda n: (random(n, 7),)
    ),
    "flip": Case(lambda x: x.flip(1) + x, lambda n: (random(7, n),)),
    "sizes as numbers": Case(
        lambda x: (x / x.shape[0] ** 0.5, x.shape[0] * 2, x + torch.arange(x.shape[0])[:, None]),
        lambda n: (random(n, 7),),
    ),
    "loss": Case(F.cross_entropy, lambda n: (random(n, 6), torch.randint(0, 6, (n,)))),
    "strided input": Case(lambda x: x * 2 + 1, lambda n: (random(n, 7).t(),)),
    "float64": Case(lambda x: (x * 2).softmax(0), lambda n: (random(n, 7, dtype=torch.float64),)),
}


#: Dynamo tells sizes apart, whatever the backend: odd ones, and before 2.13 those of a maximum.
SPLIT = ("steps", "max pool")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("driver", "dynamic"),
    # What Dynamo takes for dynamic after a change does not depend on the driver.
    [*((d, True) for d in two_drivers()), *((d, None) for d in two_drivers()[:1])],
    ids=lambda x: x if isinstance(x, str) else "dynamic" if x else "automatic",
)
def test_one_graph_serves_all_sizes(name: str, driver: str, dynamic: bool | None) -> None:
    case = CASES[name]
    least, most = (
        graphs_of_pytorch(case.fn, map(case.inputs, case.sizes), backend=b, dynamic=dynamic)
        for b in ("eager", "aot_eager")
    )
    function = compiled(case.fn, driver, dynamic=dynamic)
    for n in case.sizes:
        agree(
            case.fn,
            *case.inputs(n),
            device=driver,
            compiled_fn=function,
            atol=case.atol,
            rtol=None if case.atol is None else 1e-4,
            reference=False,
        )
    # AOTAutograd may tell more sizes apart than Dynamo alone, as of norms before 2.13.
    assert least <= counters["opencl"]["graphs"] <= max(least, most)
    assert least <= (1 if dynamic else 2) or name in SPLIT


SIMT = (
    "pointwise columns",
    "sum of rows",
    "softmax",
    "layer norm",
    "linear",
    "attention",
    "gather",
)


@pytest.mark.parametrize("name", SIMT)
def test_simt_profile(name: str, driver: str = two_drivers()[0]) -> None:
    case = CASES[name]
    function = compiled(case.fn, driver, dynamic=True, profile="simt")
    for n in case.sizes:
        agree(
            case.fn,
            *case.inputs(n),
            device=driver,
            compiled_fn=function,
            atol=1e-4,
            rtol=1e-4,
            reference=False,
        )
    assert counters["opencl"]["graphs"] == 1


def test_views_of_an_input_with_an_offset(device_name: str) -> None:
    """AOT rebuilds such results from the offset of what the backend returns."""

    def fn(x: torch.Tensor) -> Any:
        return x.flatten(2, 3).flatten(1, 2), x[1:, 2:], x + 1

    x = torch.randn(17 * 3 * 17 * 8 + 1)[1:].view(17, 3, 17, 8)
    agree(fn, x, device=device_name, dynamic=True)


@pytest.mark.parametrize("known", (True, False))
def test_views_of_an_input_that_a_symbolic_size_splits(
    known: bool, device_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not their index is found to be one of strides."""

    def fn(x: torch.Tensor) -> Any:
        parts = x.unflatten(1, (2, -1))
        return parts[:, 1:], parts[1:].transpose(1, 2), x * 2

    if not known:
        monkeypatch.setattr(lowering_results, "strided_view", lambda value: None)
    x = random(6, 100, 3)[1:]
    function = compiled(fn, device_name, dynamic=True)
    agree(fn, x, device=device_name, compiled_fn=function, reference=False)
    for view in function(x)[:2]:
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_a_size_that_a_guard_makes_one(device_name: str) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> Any:
        t = torch.maximum(x[2::3], x[2::3])
        return t, t.expand(8, 17) @ w

    agree(fn, random(4, 17), random(17, 1), device=device_name, dynamic=True)


def test_growing_and_shrinking_scratch(device_name: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.softmax(1) @ y).cumsum(0).softmax(0)

    function = compiled(fn, device_name, dynamic=True)
    for n in (17, 5, 129, 4, 65):
        agree(
            fn,
            random(n, 7),
            random(7, 9),
            device=device_name,
            compiled_fn=function,
            atol=1e-4,
            rtol=1e-4,
            reference=False,
        )
    assert counters["opencl"]["graphs"] == 1
