"""What loops of the vector profile look like: side by side, ahead, without OpenCL."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from evaluate import make_device
from test_golden import NONE, kernels, t
from torch.nn import functional as F

from ocl_inductor.codegen.printers.nontemporal import streaming_functions

Function = Callable[..., torch.Tensor]

ASK = "__builtin_prefetch("


def source_of(function: Function, *inputs: torch.Tensor) -> str:
    return kernels((function, inputs, NONE), "vector")


def _sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def test_asks_for_what_is_large_and_contiguous() -> None:
    assert source_of(lambda x, w: F.gelu(x * w).sum(-1), t(2048, 1024), t(1024)).count(ASK) == 1
    assert ASK not in source_of(_sum, t(64, 1024))
    assert ASK not in source_of(_sum, t(2048, 2048)[:, ::2])
    assert ASK not in source_of(lambda x: x.sum(0), t(2048, 1024))


def test_one_sweep_asks_for_the_next_row() -> None:
    source = source_of(lambda x: F.layer_norm(x, (1024,)).softmax(-1), t(2048, 1024))
    assert source.count(ASK) == 1
    asked = source.index(ASK)
    assert "ocl_exp_negative" in source[asked : source.index("}", asked)]


def test_a_row_made_of_many_is_kept_and_read_once_less() -> None:
    def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (1024,), w, b).softmax(-1)

    source = source_of(program, t(2048, 1024), t(1024), t(1024))
    # The greatest is looked for in a sweep of two ways, the last that reads the row: it asks.
    assert source.count(ASK) == 2
    assert source.count("*(__private float8u*)(kept0") == 2
    sweep = source[source.index("*(__private const float8u*)(kept0") :]
    sweep = sweep[: sweep.index("}")]
    assert "ocl_exp_negative" in sweep
    assert "__global" not in sweep
    # The exponentials are kept in turn.
    assert source.count("*(__private const float8u*)(kept1") == 1


def test_a_row_made_of_few_is_read_again() -> None:
    source = source_of(lambda x, w: (x * w).softmax(-1), t(64, 1024), t(1024))
    assert source.count("*(__private const float8u*)(kept") == 1  # the exponentials


def test_a_long_row_is_not_kept() -> None:
    assert "__private" not in source_of(lambda x: x.softmax(-1), t(64, 8192))


def test_a_device_without_it_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    device = dataclasses.replace(make_device(), prefetch=False)
    monkeypatch.setattr("test_golden.make_device", lambda: device)
    assert ASK not in source_of(_sum, t(2048, 1024))


@pytest.mark.parametrize(("columns", "values"), [(8, 1), (16, 1), (32, 2), (64, 4), (1024, 4)])
def test_running_values_of_a_sum(columns: int, values: int) -> None:
    source = source_of(_sum, t(50, columns))
    assert source.count("(float8)(0.0f);") == values


def test_a_body_that_computes_much_has_one_running_value() -> None:
    source = source_of(lambda x: F.gelu(x).sum(-1), t(50, 1024))
    assert source.count("acc_arg1 = (acc_arg1 + ") == 1


def test_arms_of_a_streaming_store_differ() -> None:
    """Compilers may make one plain store of two arms that store the same vector."""
    floats, doubles = streaming_functions(["stream_float8", "stream_double2"])
    assert "(__global float4u*)p = x.lo" in floats.text
    assert "(__global double*)p = x.lo" in doubles.text


def _shared(x: torch.Tensor) -> torch.Tensor:
    """40 operations that each use the one before twice: a tree of 2^40 leaves."""
    for _ in range(40):
        x = x * x - x
    return x


def _search(edges: torch.Tensor, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Each step of a search reads where the last one told, three times; then a row of a table."""
    return table[_shared(torch.searchsorted(edges, x))] + x[:, None]


def _rows(table: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    return table[_shared(which)] * 2


@pytest.mark.parametrize("profile", ["vector", "simt"])
@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (_shared, (t(64, 100),)),
        (lambda x: _shared(x).softmax(-1), (t(64, 1024),)),
        (lambda x: torch.stack([_shared(x), x], -1), (t(64, 100),)),
        (_search, (t(4096), t(64), t(4096, 256))),
        (_rows, (t(4096, 256), torch.zeros(1 << 16, dtype=torch.int64))),
    ],
    ids=["pointwise", "row", "pairs", "search", "rows"],
)
def test_what_is_shared_is_looked_at_once(
    function: Function, inputs: tuple[torch.Tensor, ...], profile: str
) -> None:
    """Each look at a loop body goes over a DAG; over it as a tree this would never end."""
    source = kernels((function, inputs, NONE), profile)
    assert 40 <= source.count(" * ") < 600
