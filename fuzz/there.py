"""Programs on tensors of the device ``ocl``: operator by operator, recorded, or compiled.

A process has one such device, with one kind of memory; ``prepare`` chooses it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.cases import copied
from conformance.eagerly import poison_memory
from fuzz.program import Program, Sizes
from fuzz.run import finish

EAGER, LAZY, COMPILED = "eager", "lazy", "resident"
MODES = (EAGER, LAZY, COMPILED)


def prepare(device: str, memory: str) -> None:
    """Before any backward pass of the process."""
    os.environ |= {
        "OCL_INDUCTOR_DEVICE": device,
        "OCL_INDUCTOR_MEMORY": memory,
        "OCL_INDUCTOR_VERIFY": "1",
    }
    importlib.import_module("ocl_inductor.eager")
    poison_memory()


def inputs_there(program: Program, sizes: Sizes) -> list[torch.Tensor]:
    """Those of a program on ``ocl``; views of one another stay so."""
    made: dict[str, Any] = {}
    for i in program.inputs:
        x = i.make(sizes, made, False)
        made[i.name] = x if i.alias else copied(x, "ocl")
    return list(made.values())


def run_there(
    inputs: Sequence[torch.Tensor], function: Callable[..., Any], backward: bool, mode: str
) -> list[Any]:
    """As ``fuzz.run.finish``: everything that can be seen of a call, on the CPU again."""
    with torch.ocl.lazy() if mode == LAZY else contextlib.nullcontext():
        with torch.device("ocl"):
            outputs = list(function(*inputs))
        found = finish(inputs, outputs, backward)
    return [copied(x) if isinstance(x, torch.Tensor) else x for x in found]
