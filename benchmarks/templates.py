"""Matrix products and convolutions alone: GFLOP/s of each driver beside eager PyTorch.

``python -m benchmarks.templates [--devices intel,pocl] [--rounds 15] [--profile vector] [filter]``

Each round runs every contender once, so that a disturbance of the machine hits all of them alike.
Weights are parameters (packed once); the operands of ``mm`` and ``bmm`` are inputs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

Function = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True)
class Case:
    """``make()`` gives the function and its inputs; ``flops`` counts multiplies and adds."""

    name: str
    flops: float
    make: Callable[[], tuple[Function, tuple[torch.Tensor, ...]]]


def linear(m: int, k: int, n: int) -> Case:
    """An input of m rows through a layer of k to n features."""

    def make() -> tuple[Function, tuple[torch.Tensor, ...]]:
        return nn.Linear(k, n).eval(), (torch.randn(m, k),)

    return Case(f"linear {m}x{k}x{n}", 2.0 * m * k * n, make)


def product(*sizes: int) -> Case:
    """mm of (m, k, n) or bmm of (b, m, k, n); both operands are inputs."""
    *batch, m, k, n = sizes
    flops = 2.0 * m * k * n * (batch[0] if batch else 1)

    def make() -> tuple[Function, tuple[torch.Tensor, ...]]:
        return torch.matmul, (torch.randn(*batch, m, k), torch.randn(*batch, k, n))

    return Case(f"mm {'x'.join(map(str, sizes))}", flops, make)


def conv(n: int, c: int, oc: int, size: int, kernel: int, stride: int = 1, groups: int = 1) -> Case:
    """A square image through a layer padded by half its kernel."""
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    flops = 2.0 * n * out * out * oc * (c // groups) * kernel * kernel

    def make() -> tuple[Function, tuple[torch.Tensor, ...]]:
        layer = nn.Conv2d(c, oc, kernel, stride, kernel // 2, groups=groups, bias=False).eval()
        return layer, (torch.randn(n, c, size, size),)

    name = f"conv{kernel}x{kernel} {c}->{oc} {size}^2 b{n}" + (f" s{stride}" if stride > 1 else "")
    return Case(name + (f" g{groups}" if groups > 1 else ""), flops, make)


def attention(batch: int, heads: int, length: int, size: int = 64, causal: bool = False,
              queries: int | None = None) -> Case:  # fmt: skip
    """Scaled dot-product attention; a causal one counts half its products."""
    rows = length if queries is None else queries

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def make() -> tuple[Function, tuple[torch.Tensor, ...]]:
        q = torch.randn(batch, heads, rows, size)
        return attend, (q, *(torch.randn(batch, heads, length, size) for _ in "kv"))

    name = f"attention {batch}x{heads} {rows}x{length}x{size}" + (" causal" if causal else "")
    return Case(name, 4.0 * batch * heads * rows * length * size / (2 if causal else 1), make)


CASES = (
    product(1024, 1024, 1024),
    linear(1024, 1024, 1024),
    linear(512, 768, 768),
    linear(512, 3072, 768),
    linear(512, 768, 3072),
    linear(788, 192, 576),
    linear(4, 1024, 4096),
    product(48, 128, 64, 128),
    product(48, 128, 128, 64),
    conv(4, 64, 64, 56, 3),
    conv(4, 512, 512, 7, 3),
    conv(4, 3, 64, 224, 7, 2),
    conv(4, 256, 64, 56, 1),
    conv(4, 144, 144, 56, 3, 1, 144),
)


def measure(case: Case, devices: list[str], profile: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round for eager and for each device."""
    torch.manual_seed(0)
    function, inputs = case.make()
    contenders: dict[str, Function] = {"eager": function}
    for device in devices:
        torch._dynamo.reset()
        options = {"device": device, "profile": profile}
        compiled = torch.compile(function, backend="opencl", options=options)
        torch.testing.assert_close(compiled(*inputs), function(*inputs), rtol=1e-3, atol=1e-3)
        contenders[device] = compiled
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            run(*inputs)
            start = time.perf_counter()
            run(*inputs)
            times[name].append(time.perf_counter() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="")
    parser.add_argument("--devices", default="intel,pocl")
    parser.add_argument("--profile", default="auto")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    devices = arguments.devices.split(",")
    print(f"{'GFLOP/s, best (median) of rounds':34s}", *(f"{d:>16s}" for d in ["eager", *devices]))
    with torch.no_grad():
        for case in CASES:
            if arguments.filter not in case.name:
                continue
            times = measure(case, devices, arguments.profile, arguments.rounds)
            cells = [
                f"{case.flops / min(t) / 1e9:7.0f} ({case.flops / statistics.median(t) / 1e9:5.0f})"
                for t in times.values()
            ]
            print(f"{case.name:34s}", *(f"{c:>16s}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
