"""The OpenCL source of typical programs, kept as files that a reviewer can read.

Made for one imaginary device in both profiles, so no OpenCL is needed. After a change of the code
generator: ``pytest tests/null/test_golden.py --update-golden``, then read the difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from evaluate import make_device
from planned import planned_memory
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from ocl_inductor.capture.decompositions.table import decomposition_table
from ocl_inductor.codegen.plan_builder import build_plan
from ocl_inductor.lowering.interpret import lower_graph
from ocl_inductor.passes import run_passes
from ocl_inductor.pipeline.verify import verify_graph, verify_plan, verify_schedule
from ocl_inductor.schedule.fuse import schedule_graph
from ocl_inductor.settings import Settings

FOLDER = Path(__file__).parents[1] / "golden"

Program = tuple[Callable[..., object], tuple[torch.Tensor, ...], frozenset[int]]
NONE: frozenset[int] = frozenset()


def t(*size: int) -> torch.Tensor:
    return torch.empty(*size)


def _linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, w, b))


def _conv(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(F.conv2d(x, w, b, padding=1)).mean((2, 3))


#: name: (function, inputs, positions of parameters)
PROGRAMS: dict[str, Program] = {
    "pointwise": (lambda x, y: torch.sigmoid(x * y + 1), (t(64, 100), t(64, 100)), NONE),
    "softmax": (lambda x: x.softmax(-1), (t(33, 197),), NONE),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (192,), w, b),
        (t(50, 192), t(192), t(192)),
        NONE,
    ),
    "sum_columns": (lambda x: x.sum(0), (t(200, 48),), NONE),
    "cumsum": (lambda x: x.cumsum(-1), (t(8, 300),), NONE),
    "argmax": (lambda x: x.argmax(-1), (t(16, 50),), NONE),
    "linear_gelu": (_linear, (t(40, 64), t(96, 64), t(96)), frozenset({1, 2})),
    "conv_relu_mean": (_conv, (t(2, 16, 14, 14), t(32, 16, 3, 3), t(32)), frozenset({1, 2})),
    "embedding": (
        lambda w, i: F.embedding(i, w) * 2,
        (t(100, 64), torch.zeros(4, 7, dtype=torch.int64)),
        NONE,
    ),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(0, i, s),
        (t(10, 32), torch.zeros(20, 32, dtype=torch.int64), t(20, 32)),
        NONE,
    ),
    "concatenate": (
        lambda x, y, z: torch.cat([x, y.sin(), z], 1),
        (t(4, 16), t(4, 8), t(4, 5)),
        NONE,
    ),
    "four_bit_weights": (
        lambda x, w, s: F.linear(
            x, (torch.stack([w & 15, w >> 4], -1).reshape(40, 8, 32) * s[..., None]).reshape(40, -1)
        ),
        (t(1, 256), torch.zeros(40, 128, dtype=torch.uint8), t(40, 8)),
        NONE,
    ),
    "turned_pairs": (
        lambda x: torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2).flip(0) * x,
        (t(6, 96),),
        NONE,
    ),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (t(1, 8, 12, 12),), NONE),
}

#: Programs for a device with a matrix unit; no size is a multiple of a tile.
ON_MATRIX_UNIT: dict[str, Program] = {
    "linear_relu": (
        lambda x, w, b: F.relu(F.linear(x, w, b)),
        (t(1000, 200), t(600, 200), t(600)),
        frozenset({1, 2}),
    ),
    "product_of_columns": (lambda x, y: x.t() @ y, (t(900, 500), t(900, 640)), NONE),
    "strided_convolution": (
        lambda x, w, b: F.relu(F.conv2d(x, w, b, stride=2, padding=1)),
        (t(4, 128, 56, 56), t(192, 128, 3, 3), t(192)),
        frozenset({1, 2}),
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (t(2, 4, 300, 64), t(2, 4, 300, 64), t(2, 4, 300, 64)),
        NONE,
    ),
}


def kernels(program: Program, profile: str) -> str:
    """The canonical source of every kernel of a program, prologue first."""
    function, inputs, static = program
    device = make_device()
    if profile == "simt":
        device = dataclasses.replace(device, profile="simt", vector_width=1)
    elif profile == "matrix_unit":
        device = dataclasses.replace(device, amx=True, vector_width=16)

    def results(*args: torch.Tensor) -> tuple[object]:
        return (function(*args),)

    gm = make_fx(results, decomposition_table=decomposition_table(), tracing_mode="fake")(*inputs)
    graph = lower_graph(run_passes(gm), device, Settings(), static_inputs=static)
    verify_graph(graph)
    schedule = schedule_graph(graph, device, int)
    verify_schedule(graph, schedule)
    memory = planned_memory(graph, schedule, device)
    plan = build_plan(graph, schedule, memory, device, chained=False, verify=True)
    verify_plan(plan)
    return "\n".join(k.source for k in plan.kernels)


@pytest.mark.parametrize(
    ("name", "profile"),
    [(n, p) for n in PROGRAMS for p in ("vector", "simt")]
    + [(n, "matrix_unit") for n in ON_MATRIX_UNIT],
)
def test_source(name: str, profile: str, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{name}.{profile}.cl"
    source = kernels((PROGRAMS | ON_MATRIX_UNIT)[name], profile)
    if request.config.getoption("--update-golden"):
        path.write_text(source)
    assert path.exists(), f"{path.name} is missing: run pytest with --update-golden"
    assert source == path.read_text(), "the emitted source changed: read it, then --update-golden"
