"""``python -m benchmarks.gpu.card``: the card's roofs, and single kernels beside CUDA's.

Products and convolutions are compared by their kernels' own time: the operands of the OpenCL side
come from host memory, those of CUDA's lie on the card.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from dataclasses import asdict
from fnmatch import fnmatch

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.gpu.clock import calls_ms, kernels_of
from benchmarks.gpu.line import line
from benchmarks.gpu.setup import Where, arguments, in_type, where
from benchmarks.templates import Case, attention, conv, linear, product
from benchmarks.zoo import Inputs
from ocl_inductor.sweep.process.child import short_message
from ocl_inductor.tune.roof import measured_roof

ARITHMETIC = (
    product(4096, 4096, 4096),
    product(1024, 1024, 1024),
    linear(4096, 4096, 4096),
    linear(512, 768, 3072),
    linear(512, 3072, 768),
    linear(16, 4096, 4096),
    linear(1, 4096, 4096),
    product(96, 512, 64, 512),
    conv(16, 64, 64, 56, 3),
    conv(16, 128, 128, 28, 3),
    conv(16, 512, 512, 7, 3),
    conv(16, 64, 64, 224, 3),
    conv(16, 3, 64, 224, 7, 2),
    conv(16, 256, 64, 56, 1),
    conv(16, 256, 1024, 14, 1),
    conv(16, 144, 144, 56, 3, 1, 144),
)
ATTENTION = (
    attention(4, 12, 512),
    attention(2, 16, 2048),
    attention(2, 16, 2048, causal=True),
    attention(8, 32, 4096, 128, queries=1),
)

#: The same of half types, where a card has instructions for whole matrices; no depthwise ones.
HALVES = (product(8192, 8192, 8192), *ARITHMETIC[:-1])

_Pointwise = tuple[str, Callable[..., torch.Tensor], tuple[int, ...]]


def _spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(torch.fft.rfft(x))


def _regular(x: torch.Tensor) -> torch.Tensor:
    """Matrices of which an inverse is well known."""
    return x + 2 * x.shape[-1] * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


#: Memory-bound functions of one float32 tensor.
MEMORY: tuple[_Pointwise, ...] = (
    ("add", lambda x: x + 1.0, (64 << 20,)),
    ("gelu", F.gelu, (64 << 20,)),
    ("sum of rows", lambda x: x.sum(1), (16384, 4096)),
    ("sum of columns", lambda x: x.sum(0), (16384, 4096)),
    ("sum of all", lambda x: x.sum(), (64 << 20,)),
    ("softmax", lambda x: x.softmax(1), (16384, 4096)),
    ("layer norm", lambda x: F.layer_norm(x, (1024,)), (65536, 1024)),
    ("batch norm", lambda x: F.batch_norm(x, None, None, training=True), (16, 256, 56, 56)),
    ("transpose", lambda x: x.t().contiguous(), (8192, 8192)),
    ("max pool", lambda x: F.max_pool2d(x, 3, 2, 1), (16, 64, 112, 112)),
    ("cumsum", lambda x: x.cumsum(1), (4096, 16384)),
    ("cumsum of all", lambda x: x.cumsum(0), (16 << 20,)),
    ("sort", lambda x: x.sort(1)[0], (16384, 1024)),
    ("rfft of 256", _spectrum, (65536, 256)),
    ("rfft of 1024", _spectrum, (16384, 1024)),
    ("inverse 16x16", lambda x: torch.linalg.inv(_regular(x)), (65536, 16, 16)),
    ("solve 32x32", lambda x: torch.linalg.solve(_regular(x), x), (16384, 32, 32)),
)


def arithmetic(case: Case, place: Where, dtype: torch.dtype = torch.float32) -> None:
    """One product or convolution on both sides; those of half types with images channels-last."""
    torch.manual_seed(0)
    function, own = case.make()
    function, converted = in_type(function, Inputs(own), dtype)
    inputs = converted.args
    compiled = place.compile(function)
    expected = _exact(function, inputs, place.cuda)
    error = float((compiled(*inputs).double() - expected).abs().max())
    found = kernels_of(lambda: compiled(*inputs))
    values = {"case": case.name, "dtype": str(dtype)[6:], "gflop": case.flops / 1e9}
    values |= {"error": error, "scale": float(expected.abs().max()), **found}
    values["tflop_s"] = case.flops / found["kernels_ms"] / 1e9
    if place.cuda:
        if isinstance(function, nn.Module):
            function = function.cuda()
        there = tuple(x.cuda() for x in inputs)
        ms = calls_ms(lambda: function(*there), cuda=True)
        values |= {"cuda_ms": ms, "cuda_tflop_s": case.flops / ms / 1e9}
    line("arithmetic", **values)


def _exact(
    function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], cuda: bool
) -> torch.Tensor:
    """The result in float64, computed on the card where there is one."""
    there = "cuda" if cuda else "cpu"
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).double().to(there)
    return function(*(x.double().to(there) for x in inputs)).cpu()


def memory(name: str, function: Callable[..., torch.Tensor], shape: tuple[int, ...],
           place: Where) -> None:  # fmt: skip
    """One memory-bound function on both sides."""
    torch.manual_seed(0)
    x = torch.randn(shape)
    compiled = place.compile(function)
    result, expected = compiled(x), function(x.double())
    error = float((result.double() - expected).abs().max())
    found = kernels_of(lambda: compiled(x))
    nbytes = 4 * (x.numel() + result.numel())
    values = {"case": name, "bytes": nbytes, "error": error, **found}
    values["gb_s"] = nbytes / found["kernels_ms"] / 1e6
    if place.cuda:
        there = x.cuda()
        ms = calls_ms(lambda: function(there), cuda=True)
        values |= {"cuda_ms": ms, "cuda_gb_s": nbytes / ms / 1e6}
    line("memory", **values)


def copies(place: Where) -> None:
    """Bytes a second within the card, and over the bus, through CUDA."""
    if not place.cuda:
        return
    a = torch.empty(256 << 20, device="cuda")
    b = torch.empty_like(a)
    ms = calls_ms(lambda: b.copy_(a), cuda=True)
    line("cuda copy", gb_s=2 * a.numel() * 4 / ms / 1e6)
    plain = torch.empty(64 << 20)
    pinned = plain.pin_memory()
    there = torch.empty(64 << 20, device="cuda")
    for name, host in (("pageable", plain), ("pinned", pinned)):
        up = calls_ms(lambda host=host: there.copy_(host), 3, cuda=True)
        down = calls_ms(lambda host=host: host.copy_(there), 3, cuda=True)
        size = 4 * host.numel() / 1e6
        line("cuda bus", memory=name, up_gb_s=size / up, down_gb_s=size / down)


def launches(place: Where) -> None:
    """What calls of small graphs take: one kernel, and a chain that cannot be fused."""
    x = torch.randn(1000)

    def one(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    def many(x: torch.Tensor) -> torch.Tensor:
        for _ in range(16):
            x = x.roll(1, 0).cumsum(0).softmax(0)
        return x

    for name, function in (("one", one), ("many", many)):
        compiled = place.compile(function)
        compiled(x)
        found = kernels_of(lambda compiled=compiled: compiled(x))
        us = calls_ms(lambda compiled=compiled: compiled(x)) * 1e3
        values = {"case": name, "us": us, "launches": found["launches"]}
        values["kernels_us"] = found["kernels_ms"] * 1e3
        if place.cuda:
            there = x.cuda()

            def cuda(function=function, there=there):
                function(there)
                torch.cuda.synchronize()

            values["cuda_us"] = calls_ms(cuda, cuda=True) * 1e3
        line("launch", **values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default="*", help="patterns for the names of single kernels")
    arguments(parser)
    parsed = parser.parse_args()
    place = where(parsed)

    def wanted(name: str) -> bool:
        return any(fnmatch(name, pattern) for pattern in parsed.kernels.split(","))

    facts = asdict(place.device.info)
    facts["extensions"] = sorted(facts["extensions"])
    line("device", **{k: sorted(v) if isinstance(v, frozenset) else v for k, v in facts.items()})
    line("roof", **asdict(measured_roof(place.device, place.settings, again=True)))
    guarded("cuda copy", copies, place)
    with torch.no_grad():
        guarded("launch", launches, place)
        for dtype, cases in ((torch.float32, ARITHMETIC), (torch.bfloat16, HALVES)):
            for case in (*ATTENTION, *(cases[1:2] if place.small else cases)):
                if wanted(case.name):
                    torch._dynamo.reset()
                    guarded("arithmetic", arithmetic, case, place, dtype)
        for name, function, shape in MEMORY:
            if wanted(name):
                torch._dynamo.reset()
                sizes = (max(1, shape[0] // 16), *shape[1:]) if place.small else shape
                guarded("memory", memory, name, function, sizes, place)


def guarded(part: str, run: Callable[..., None], *values: object) -> None:
    """Run one thing; its failure is a line too."""
    try:
        run(*values)
    except Exception as error:
        name = next((str(getattr(v, "name", v)) for v in values), "")
        line("failed", of=part, case=name, message=short_message(error, 600))


if __name__ == "__main__":
    main()
