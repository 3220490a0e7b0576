"""What the examples share: options, progress, comparison with eager, and what was counted.

A program of your own needs none of it.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor
from torch._dynamo.utils import counters

from ocl_inductor.sweep.vision_import import import_torchvision

console = Console(highlight=False, soft_wrap=True)

# timm, transformers and others import torchvision, whose published build does not load beside a
# PyTorch without CUDA.
with contextlib.suppress(ImportError):
    import_torchvision()


def options(what: str, **more: tuple[int, str]) -> argparse.Namespace:
    """The options of an example; ``more`` are whole numbers with their default and help."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--check", action="store_true", help="fail if anything is not as it should")
    parser.add_argument("--output", type=Path, help="folder for pictures (default: a new one)")
    for name, (default, text) in more.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} ({default})")
    chosen = parser.parse_args()
    if chosen.output is None:
        chosen.output = Path(tempfile.mkdtemp(prefix="ocl_inductor_example_"))
    chosen.output.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    return chosen


@contextlib.contextmanager
def step(text: str) -> Iterator[Callable[[str], None]]:
    """Show ``text`` while the block runs, and how long it took afterwards.

    Gives a function that shows a detail beside it.
    """
    start = time.perf_counter()
    with console.status(f"{text} …") as status:
        yield lambda detail: status.update(f"{text} … {detail}")
    console.print(f"{text}: {time.perf_counter() - start:.1f} s")


def graphs() -> int:
    """How many graphs were compiled so far, by any backend."""
    return counters["stats"]["unique_graphs"]


def summary() -> str:
    """What our backend did so far, in a line."""
    table = counters["opencl"]
    return (
        f"{table['graphs']} graphs, {table['kernels']} kernels, "
        f"{table['fallbacks']} operators on the host"
    )


def check_counters(settled: int, fallbacks: int = 0) -> None:
    """Everything went through our backend, and nothing was compiled after ``settled`` graphs.

    ``settled`` is what ``graphs()`` gave after the second call.
    """
    table = counters["opencl"]
    assert table["graphs"] > 0 and table["kernels"] > 0, dict(table)
    assert table["fallbacks"] == fallbacks, counters["opencl"]
    assert graphs() == settled, f"{graphs() - settled} graphs were compiled again"


def distance(result: Any, exact: Any) -> float:
    """Largest difference, as a share of the largest magnitude of ``exact``."""
    result, exact = torch.as_tensor(result).double(), torch.as_tensor(exact).double()
    assert result.shape == exact.shape, (result.shape, exact.shape)
    assert result.isfinite().all() and exact.isfinite().all()
    return ((result - exact).abs().max() / exact.abs().max()).item()


def check_close(ours: Tensor, eager: Tensor, exact: Tensor) -> None:
    """``ours`` is about as near to a float64 result as eager's is: at most four times as far.

    A few units in the last place are always allowed.
    """
    floor = 8 * torch.finfo(ours.dtype).eps
    far, eager_far = distance(ours, exact), distance(eager, exact)
    console.print(f"distance from float64: {far:.1e}, eager's {eager_far:.1e}")
    assert far <= max(4 * eager_far, floor), (far, eager_far)
