"""``python -m benchmarks.gpu.network NAME@BATCH…``: networks beside CUDA eager and Inductor.

``NAME@BATCH/train`` is a training step: forward and backward.

Of ``opencl`` the inputs, parameters and results are CPU tensors, so its call includes what goes
over the bus; of ``ocl`` they live on the device, as CUDA's do. The kernels' own time stands beside
both. A process with ``ocl`` among its contenders cannot train on CUDA (docs/ocl.md), so they take
one each.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from benchmarks.errors import Named, largest_error, named, scale
from benchmarks.gpu.clock import calls_ms, kernels_of
from benchmarks.gpu.line import OURS, line
from benchmarks.gpu.setup import Where, arguments, in_type, where
from benchmarks.training import trainable, training_step
from benchmarks.zoo import ALL, Inputs
from ocl_inductor.resident.places import NAME
from ocl_inductor.sweep.process.child import short_message

#: Contenders in the order in which they run.
CONTENDERS = ("ocl", "opencl", "cuda-eager", "cuda-inductor")


def moved(inputs: Inputs, device: str) -> Inputs:
    """The arguments on another device."""
    args, kwargs = tree_map_only(
        torch.Tensor, lambda x: x.to(device), (inputs.args, dict(inputs.kwargs))
    )
    return Inputs(args, kwargs)


def contender(name: str, model: nn.Module, inputs: Inputs, place: Where, training: bool,
              ) -> Callable[[], Any]:  # fmt: skip
    """What one contender does in each call."""
    if name == "opencl":
        call: Callable[..., Any] = place.compile(model)
    elif name == "ocl":
        there = place.resident()
        model, inputs = copy.deepcopy(model).to(there), moved(inputs, there)
        call = place.compile(model)
    else:
        model, inputs = copy.deepcopy(model).cuda(), moved(inputs, "cuda")
        call = torch.compile(model) if name == "cuda-inductor" else model
    step = training_step(model, call) if training else call
    return partial(step, *inputs.args, **dict(inputs.kwargs))


def reference(model: nn.Module, inputs: Inputs, place: Where, training: bool) -> Named:
    """Results in float64, on the card where there is one."""
    there = "cuda" if place.cuda and not hasattr(torch, NAME) else "cpu"
    wide, double = copy.deepcopy(model).double().to(there), moved(inputs.double(), there)
    step = training_step(wide, wide) if training else wide
    return at_home(named(step(*double.args, **dict(double.kwargs))))


def at_home(found: Named) -> Named:
    return {k: v.cpu() for k, v in found.items()}


def reference_file(folder: Path, facts: Mapping[str, Any]) -> Path:
    kind = "-train" if facts["training"] else ""
    return folder / f"{facts['case']}-{facts['dtype']}{kind}.pt"


def known_reference(folder: Path | None, facts: Mapping[str, Any]) -> Named:
    """What another process has found and kept; empty where there is nothing."""
    if folder is None or not reference_file(folder, facts).exists():
        return {}
    found: Named = torch.load(reference_file(folder, facts))
    return found


def built(
    case: str, place: Where, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, Inputs, bool]:
    """The network of ``NAME@BATCH`` or ``NAME@BATCH/train``, its inputs, and whether it trains."""
    torch.manual_seed(0)
    case, _, kind = case.partition("/")
    name, _, batch = case.partition("@")
    entry, training = ALL[name], kind == "train"
    model = trainable(entry, place.small) if training else entry.build(place.small)
    inputs = entry.inputs(place.small, batch=int(batch) if batch else None)
    return *in_type(model, inputs, dtype), training


def measure(
    case: str,
    place: Where,
    names: list[str],
    time_them: bool,
    references: Path | None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """All contenders, each in its turn; ``time_them`` false only compiles. ``references``: where
    results in float64 are kept for other processes.
    """
    model, inputs, training = built(case, place, dtype)
    case = case.removesuffix("/train")
    if time_them:
        line("begin", case=case, training=training)
    facts = {"case": case, "training": training, "dtype": str(dtype)[6:]}
    expected = known_reference(references, facts) if time_them else {}
    if time_them and not expected:
        expected = reference(model, inputs, place, training)
        if references is not None:
            references.mkdir(exist_ok=True)
            torch.save(expected, reference_file(references, facts))
    for name in names:
        if name not in OURS and not place.cuda:
            continue
        torch._dynamo.reset()
        start = time.perf_counter()
        try:
            call = contender(name, model, inputs, place, training)
            result = at_home(named(call()))
            first_s = time.perf_counter() - start
            if not time_them:
                continue
            values: dict[str, Any] = {"first_s": first_s}
            values["error"] = largest_error(result, expected)
            values["scale"] = scale(expected)
            wait = place.wait if name == "ocl" else None
            values["ms"] = calls_ms(call, cuda=name not in OURS, wait=wait)
            if name in OURS:
                values |= kernels_of(call)
            line("network", contender=name, **facts, **values)
        except Exception as error:
            message = short_message(error, 600)
            line("failed", of="network", contender=name, **facts, message=message)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--compile-only", action="store_true", help="only fill the caches")
    parser.add_argument("--references", type=Path, help="folder of results in float64, kept")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    arguments(parser)
    parsed = parser.parse_args()
    names = parsed.contenders.split(",")
    dtype = getattr(torch, parsed.dtype)
    if "ocl" in names:
        # Before autograd's engine starts its threads, one for each device; and nowhere else.
        importlib.import_module("ocl_inductor.eager")
    with torch.no_grad():
        for case in parsed.cases:
            measure(case, where(parsed), names, not parsed.compile_only, parsed.references, dtype)


if __name__ == "__main__":
    main()
