"""Runs models as the environment has it: which patches are in force, and how far results are off.

Prints one JSON document. ``python patches_worker.py DEVICE``.
"""

from __future__ import annotations

import copy
import gc
import json
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._functorch import partitioners

Wrap = Callable[[Any], Any]
Results = list[Tensor]

in_force: set[str] = set()


def notes(name: str, function: Any) -> Any:
    """The function, which shows by being called that a patch is in force."""

    def called(*args: Any, **kwargs: Any) -> Any:
        in_force.add(name)
        return function(*args, **kwargs)

    return called


def gradients(model: nn.Module, out: Tensor) -> Results:
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    (out * weights).sum().backward()
    return [out.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def numbers(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(2))


def mlp_with_fused_steps(model: nn.Module, wrap: Wrap, dtype: torch.dtype) -> Results:
    """A few rows read packed weights, which each step writes."""
    function, x = wrap(model), numbers(4, 256).to(dtype)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        optimiser.zero_grad()
        function(x).square().mean().backward()
        optimiser.step()
    with torch.no_grad():
        return [function(x), function(x), *(p.detach() for p in model.parameters())]


def forward_and_backward(model: nn.Module, wrap: Wrap, dtype: torch.dtype) -> Results:
    return gradients(model, wrap(model)(numbers(4, 3, 16, 16).to(dtype)))


def recurrent(model: nn.Module, wrap: Wrap, dtype: torch.dtype) -> Results:
    return gradients(model, wrap(model)(numbers(5, 3, 16).to(dtype))[0])


def transformer(model: nn.Module, wrap: Wrap, dtype: torch.dtype) -> Results:
    with torch.no_grad():
        return [wrap(model.eval())(numbers(2, 7, 32).to(dtype))]


class Ctc(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        targets, lengths = torch.tensor([[1, 2], [3, 3]]), torch.tensor([6, 6])
        log_probs = self.linear(x).log_softmax(-1)
        return nn.functional.ctc_loss(log_probs, targets, lengths, torch.tensor([2, 1]))


def ctc(model: nn.Module, wrap: Wrap, dtype: torch.dtype) -> Results:
    return gradients(model, wrap(model)(numbers(6, 2, 8).to(dtype)))


class Windows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(numbers(30))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.softplus(x * self.scale).unfold(0, 4, 3)


def windows(model: nn.Module, wrap: Wrap, dtype: torch.dtype) -> Results:
    return gradients(model, wrap(model)(numbers(30).to(dtype)))


def models() -> dict[str, tuple[nn.Module, Callable[..., Results]]]:
    torch.manual_seed(0)
    image = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Hardswish(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, 8),
    )  # fmt: skip
    return {
        "mlp": (
            nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 64)),
            mlp_with_fused_steps,
        ),
        "image": (image, forward_and_backward),
        "lstm": (nn.LSTM(16, 16), recurrent),
        "transformer": (
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
            transformer,
        ),
        "ctc": (Ctc(), ctc),
        "windows": (Windows(), windows),
    }


def error(results: Results, exact: Results) -> list[float]:
    """The largest distance of each result, in parts of the largest number."""
    found = []
    for r, e in zip(results, exact, strict=True):
        assert r.shape == e.shape and r.dtype is torch.float32
        found.append(float((r.double() - e).abs().max() / (1 + e.abs().max())))
    return found


def watch_for_patches() -> None:
    """Whatever shows itself only while a graph is compiled."""
    from ocl_inductor.device.driver import code_pages
    from ocl_inductor.patches.process import malloc_trim

    plain = partitioners.get_default_op_list
    split = partitioners.min_cut_rematerialization_partition

    def partition(*args: Any, **kwargs: Any) -> Any:
        if partitioners.get_default_op_list is not plain:
            in_force.add("partitioner_operators")
        if gc.get_freeze_count():
            in_force.add("garbage_collector")
        return split(*args, **kwargs)

    partitioners.min_cut_rematerialization_partition = partition
    code_pages.drop_pages = notes("driver_code_pages", code_pages.drop_pages)
    malloc_trim.ctypes = _Library()  # type: ignore[assignment]


class _Library:
    """In the place of ctypes."""

    def CDLL(self, name: None) -> Any:
        return self

    def malloc_trim(self, pad: int) -> None:
        in_force.add("malloc_trim")


def look_at_patches() -> None:
    """Whatever is in force from some moment on."""
    import pyopencl
    from pyopencl import invoker
    from torch._dynamo.variables.builder import VariableBuilder
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
    from torch._functorch._aot_autograd.autograd_cache import (
        AOTAutogradCache,
        AOTAutogradCachePickler,
    )
    from torch._inductor import codecache

    from ocl_inductor.device.driver.pyopencl_loader import surveyed
    from ocl_inductor.patches.process.quiet_logging import without_errors
    from ocl_inductor.patches.process.written_pages import written_pages
    from ocl_inductor.settings import default_cache_dir
    from ocl_inductor.support.background import make_in_background

    def ours(function: Any) -> bool:
        return function.__module__.startswith("ocl_inductor.")

    with without_errors():
        quiet = not logging.raiseExceptions
    found = {
        "switch_interval": make_in_background(sys.getswitchinterval).result() < 0.005,
        "written_pages": written_pages() is not None,
        "quiet_logging": quiet,
        "pyopencl_platforms": surveyed() is not None and ours(pyopencl.get_platforms),
        "pyopencl_invokers": ours(type(invoker.invoker_cache)),
        "pyopencl_warnings": any(f[2] is pyopencl.CompilerWarning for f in warnings.filters),
        "plan_cache": ours(AOTAutogradCache._write_to_local_cache),
        "plan_cache_keys": ours(AOTAutogradCachePickler.__init__),
        "inductor_passes": ours(codecache.init_backend_registration),
        "torch_digest": (default_cache_dir() / "torch").exists(),
        "recurrent_modules": ours(VariableBuilder.wrap_module)
        or torch.lstm in TorchInGraphFunctionVariable._get_handlers(),
        "ctc_handlers": ours(TorchInGraphFunctionVariable._get_handlers()[torch.ctc_loss])
        if torch.ctc_loss in TorchInGraphFunctionVariable._get_handlers()
        else False,
        "lazy_steps": _told_of_steps(),
    }
    in_force.update(name for name, is_so in found.items() if is_so)


def _told_of_steps() -> bool:
    """Whether lazy mode, which this process has not, would know of an optimiser's step."""
    from ocl_inductor.patches.pytorch.lazy_steps import after_each_step

    told: list[object] = []
    handle = after_each_step(lambda optimiser, *_: told.append(optimiser))
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    optimiser.step()
    if handle is not None:
        handle.remove()
        optimiser.step()
    return told == [optimiser]


def main(device: str) -> None:
    import ocl_inductor

    watch_for_patches()
    errors = {}
    hits = 0
    for name, (model, run) in models().items():
        exact = run(copy.deepcopy(model).double(), lambda f: f, torch.float64)
        eager = run(copy.deepcopy(model), lambda f: f, torch.float32)
        pairs = []
        for _ in range(2):  # the second time from plans, where they are kept
            torch.compiler.reset()
            compiled = run(copy.deepcopy(model), on(device), torch.float32)
            pairs += list(zip(error(compiled, exact), error(eager, exact), strict=True))
            hits += counters["opencl"]["plan_hits"]
        errors[name] = pairs
    with ocl_inductor.profile() as p:
        on(device)(lambda x: x + 1)(torch.ones(3))
    if p.compiles:
        in_force.add("compile_times")
    look_at_patches()
    print(json.dumps({"errors": errors, "in_force": sorted(in_force), "plan_hits": hits}))


def on(device: str) -> Wrap:
    return lambda f: torch.compile(f, backend="opencl", dynamic=False, options={"device": device})


if __name__ == "__main__":
    main(sys.argv[1])
