"""``python -m benchmarks.gpu.attention``: tiles of attention on this card, and CUDA's rate.

Each tile that fits, in float32 (templates/attention/query_groups.py) and in bfloat16 by matrix
instructions (mma_attention.py): its rate, and how far it is from float64 in units of the type. The
tile that the rules choose is the one marked ``chosen``. Groups are the candidates of the tuned
values. ``--compile-only`` fills the cache of kernels, for ``--part K/N`` of the work.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from unittest.mock import patch

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu.card import guarded
from benchmarks.gpu.clock import calls_ms, kernels_of
from benchmarks.gpu.line import line
from benchmarks.gpu.setup import Where, arguments, where
from ocl_inductor.lowering.attention import flash_attention, mma_attention
from ocl_inductor.templates.attention.mma_attention import MmaQueryTile
from ocl_inductor.templates.attention.query_groups import QueryGroup, query_group_costs

#: (batch, heads, rows, head size, causal)
Problem = tuple[int, int, int, int, bool]
PROBLEMS: tuple[Problem, ...] = (
    (4, 12, 512, 64, False),
    (2, 16, 2048, 64, False),
    (2, 16, 2048, 64, True),
    (2, 16, 1024, 128, False),
)
#: Tiles for matrix instructions: warps, blocks of 16 queries, keys.
_MMA = ((4, 1, 64), (4, 2, 64), (4, 2, 32), (4, 1, 32), (8, 1, 64), (8, 1, 32), (2, 2, 64))
_BITS = {torch.float32: 24, torch.bfloat16: 8}


@dataclass(frozen=True)
class Trial:
    """One problem with one tile; None: the one that the rules choose."""

    problem: Problem
    dtype: torch.dtype
    tile: QueryGroup | MmaQueryTile | None

    def fits(self, place: Where) -> bool:
        width = self.problem[3]
        if isinstance(self.tile, QueryGroup):
            needed = 4 * self.tile.local_elements(width, width)
        else:
            needed = self.tile.local_bytes(width, width) if self.tile else 0
        return needed <= place.device.info.local_mem_bytes


def trials(place: Where) -> Iterator[Trial]:
    groups = [QueryGroup(*shape) for shape in query_group_costs(place.device.info).shapes]
    for problem in PROBLEMS:
        for group in (None, *groups):
            yield Trial(problem, torch.float32, group)
        for tile in (None, *(MmaQueryTile(*shape) for shape in _MMA)):
            yield Trial(problem, torch.bfloat16, tile)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=causal)


def chosen(trial: Trial) -> ExitStack:
    """Makes the rules choose the trial's tile, while it is open."""
    held = ExitStack()
    if isinstance(trial.tile, QueryGroup):
        held.enter_context(patch.object(flash_attention, "choose_group", lambda *_: trial.tile))
    elif trial.tile is not None:
        held.enter_context(patch.object(mma_attention, "choose_query_tile", lambda *_: trial.tile))
    return held


def measure(trial: Trial, place: Where, time_it: bool) -> None:
    """A line about one trial."""
    batch, heads, rows, width, causal = trial.problem
    torch.manual_seed(0)
    operands = [torch.randn(batch, heads, rows, width).to(trial.dtype) for _ in range(3)]
    torch._dynamo.reset()
    with chosen(trial):
        call = place.compile(lambda q, k, v: attend(q, k, v, causal))
        got = call(*operands)
    if not time_it:
        return
    q, k, v = (x.double().to("cuda" if place.cuda else "cpu") for x in operands)
    exact, magnitudes = attend(q, k, v, causal).cpu(), attend(q, k, v.abs(), causal).cpu()
    unit = (exact.abs() + magnitudes) * 2.0 ** -_BITS[trial.dtype]
    flops = 4.0 * batch * heads * rows * rows * width / (2 if causal else 1)
    found = kernels_of(lambda: call(*operands))
    tile = "chosen" if trial.tile is None else "x".join(map(str, astuple(trial.tile)))
    values = {
        "problem": f"{batch}x{heads} {rows}x{rows}x{width}{' causal' if causal else ''}",
        "dtype": str(trial.dtype)[6:],
        "tile": tile,
        "units_off": float(((got.double() - exact).abs() / unit).max()),
        "tflop_s": flops / found["kernels_ms"] / 1e9,
        "launches": found["launches"],
    }
    if trial.tile is None and place.cuda:
        there = [x.cuda() for x in operands]
        values["cuda_tflop_s"] = flops / calls_ms(lambda: attend(*there, causal), cuda=True) / 1e9
    line("attention", **values)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    arguments(parser)
    parser.add_argument("--compile-only", action="store_true", help="only fill the caches")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth trial from the Kth on")
    parsed = parser.parse_args()
    place = where(parsed)
    first, step = map(int, parsed.part.split("/"))
    fitting = [t for t in trials(place) if t.fits(place)]
    for trial in fitting[first - 1 :: step]:
        guarded("attention", measure, trial, place, not parsed.compile_only)


if __name__ == "__main__":
    main()
