"""What every part of a GPU session does first, and how it finds its devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from benchmarks.zoo import Inputs
from ocl_inductor.device.device import Device
from ocl_inductor.device.select import select_device
from ocl_inductor.resident.places import NAME, choose
from ocl_inductor.settings import Settings


@dataclass(frozen=True, slots=True)
class Where:
    """Where to run: an OpenCL device with options, and whether CUDA runs beside it."""

    options: dict[str, Any]
    cuda: bool
    small: bool

    @property
    def device(self) -> Device:
        """The OpenCL device."""
        return select_device(self.options["device"])

    @property
    def settings(self) -> Settings:
        """The settings that a compilation with these options has."""
        return Settings.resolve(options=self.options)

    def resident(self) -> str:
        """The device of PyTorch's that it is."""
        choose(self.options["device"])
        return NAME

    def wait(self) -> None:
        """Until everything that was enqueued on tensors there is done."""
        self.device.queue.finish()

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` compiled for the OpenCL device."""
        return torch.compile(function, backend="opencl", options=dict(self.options))


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options that all parts have. A rehearsal names a CPU driver and the GPU's profile."""
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--profile", default="auto")
    parser.add_argument("--memory", default="auto")
    parser.add_argument("--small", action="store_true", help="small models, for a rehearsal")
    parser.add_argument("--without-cuda", action="store_true", help="nothing to compare with")


def where(parsed: argparse.Namespace) -> Where:
    """The place that the options name. Full float32: no TF32 in CUDA's libraries."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    options = {"device": parsed.device, "profile": parsed.profile, "memory": parsed.memory}
    cuda = torch.cuda.is_available() and not parsed.without_cuda
    return Where(options, cuda, parsed.small)


def passed_on(parsed: argparse.Namespace) -> list[str]:
    """The same options for a child process."""
    given = ["--device", parsed.device, "--profile", parsed.profile, "--memory", parsed.memory]
    flags = {"--small": parsed.small, "--without-cuda": parsed.without_cuda}
    return [*given, *(name for name, wanted in flags.items() if wanted)]


def in_type(
    function: Callable[..., Any], inputs: Inputs, dtype: torch.dtype
) -> tuple[Callable[..., Any], Inputs]:
    """Both with their floating numbers of a type; images channels-last, as half types are used."""
    if dtype is torch.float32:
        return function, inputs
    inputs = inputs.to(dtype)

    def last(x: torch.Tensor) -> torch.Tensor:
        return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x

    args = tree_map_only(torch.Tensor, last, inputs.args)
    if isinstance(function, nn.Module):
        images = any(isinstance(x, torch.Tensor) and x.ndim == 4 for x in args)
        layout = torch.channels_last if images else torch.preserve_format
        function = function.to(dtype).to(memory_format=layout)
    return function, Inputs(args, inputs.kwargs)
