"""The ways of running a model that are compared, each known by a short name.

``eager``, ``inductor``, ``inductor-freezing`` (weights become constants and are packed ahead),
``onnxruntime`` and ``openvino`` (engines.py), and ``opencl:<device>`` for each value the backend's
device option takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

from benchmarks.engines import ENGINES, exported

BASELINES = ("eager", "inductor", "inductor-freezing")


def opencl(device: str) -> str:
    """The contender that runs on this OpenCL device."""
    return f"opencl:{device}"


def is_opencl(contender: str) -> bool:
    return contender.startswith("opencl:")


def device_of(contender: str) -> str:
    """What the backend's device option takes for an OpenCL contender."""
    return contender.removeprefix("opencl:")


def prepare(contender: str, model: Callable[..., Any]) -> Callable[..., Any]:
    """The callable to time, of a module or function.

    Nothing is compiled before its first call, see ``compiling``.

    Raises:
        ValueError: no contender has this name.
    """
    if contender == "eager":
        return model
    if contender == "inductor":
        return torch.compile(model)
    if contender == "inductor-freezing":
        # As an option too, because Dynamo takes two Inductor compilers for one unless their
        # options differ, and would hand out the other's code.
        return torch.compile(model, options={"freezing": True})
    if is_opencl(contender):
        return torch.compile(model, backend="opencl", options={"device": device_of(contender)})
    if contender in ENGINES and isinstance(model, torch.nn.Module):
        return exported(contender, model)
    known = ", ".join((*BASELINES, *ENGINES))
    raise ValueError(f"no contender {contender!r} here; there are {known} and opencl:<device>")


def preload(contender: str) -> None:
    """Import the compiler, so that a first call is timed without it."""
    import_module("torch._dynamo.backends.registry")
    import_module("torch._functorch.aot_autograd")
    if is_opencl(contender):
        import_module("ocl_inductor.compile")
    elif contender in ENGINES:
        import_module(contender)
    elif contender != "eager":
        import_module("torch._inductor.compile_fx")


@contextlib.contextmanager
def compiling(contender: str) -> Iterator[None]:
    """Hold this around the first call."""
    if contender != "inductor-freezing":
        yield
        return
    import torch._inductor.config

    # Dynamo asks the global setting whether parameters are constants, not the option.
    with torch._inductor.config.patch(freezing=True):
        yield
