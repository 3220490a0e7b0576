"""A program that was found wrong, once more.

``python -m fuzz.again FILE [DEVICE PROFILE [MEMORY]]``
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from conformance.cases import copied
from fuzz import there
from fuzz.run import finish


def load(path: Path) -> ModuleType:
    """A file of ``tests/fuzz_found``: its program, inputs, sizes, and how it was compiled."""
    spec = importlib.util.spec_from_file_location(f"fuzz_found_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def memory_of(found: ModuleType) -> str:
    """The memory that a program was found wrong in; files from before it was noted have none."""
    return str(getattr(found, "MEMORY", "auto"))


def mode_of(found: ModuleType) -> str:
    """One of ``there.MODES``, or empty for a function of CPU tensors that was compiled."""
    return str(getattr(found, "MODE", ""))


def compiled(found: ModuleType, backend: str = "opencl", **options: Any) -> Callable[..., Any]:
    torch.compiler.reset()
    chosen = options or None
    return torch.compile(found.program, backend=backend, dynamic=found.DYNAMIC, options=chosen)


def results(found: ModuleType, function: Callable[..., Any], sizes: Sequence[int]) -> list[Any]:
    """Outputs, inputs afterwards, and gradients of a weighted sum of both."""
    inputs = found.inputs(*sizes)
    return finish(inputs, list(function(*inputs)), found.BACKWARD)


def results_there(
    found: ModuleType, function: Callable[..., Any], sizes: Sequence[int]
) -> list[Any]:
    """The same with tensors on ``ocl``, in the mode in which it was found wrong."""
    filled = found.filled
    found.filled = lambda *given: copied(filled(*given), "ocl")
    try:
        inputs = found.inputs(*sizes)
    finally:
        found.filled = filled
    return there.run_there(inputs, function, found.BACKWARD, mode_of(found))


def main(path: str, *target: str) -> None:
    found = load(Path(path))
    device, profile, *rest = target or (found.DEVICE, found.PROFILE, memory_of(found))
    memory = rest[0] if rest else "auto"
    if mode := mode_of(found):
        there.prepare(device, memory)
        function = compiled(found) if mode == there.COMPILED else found.program
        run = partial(results_there, found, function)
    else:
        ours = compiled(found, device=device, profile=profile, memory=memory)
        run = partial(results, found, ours)
    for sizes in found.CALLS:
        pairs = zip(run(sizes), results(found, found.program, sizes), strict=True)
        for k, (actual, expected) in enumerate(pairs):
            some = isinstance(expected, torch.Tensor) and expected.numel() > 0
            torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=some)
            print("result", k, "agrees")


if __name__ == "__main__":
    main(*sys.argv[1:])
