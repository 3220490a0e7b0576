"""Our own random operators: functions of a seed, lowered to Philox.

``ocl_inductor::draw_seed`` takes one seed from PyTorch's generator, on the host. The others are
pure functions of a seed and a stream number, computed wherever they are needed. Passes replace
ATen's random operators by these (``passes/replace_random.py``). The implementations below serve the
host: they give the numbers that kernels give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch

from ocl_inductor.operators import philox
from ocl_inductor.operators.library import LIBRARY, ops

#: Streams count from here. Numbers of this size are arguments of a kernel (see ``Literals``), so
#: that the dropouts of all layers share a program.
FIRST_STREAM: Final = 1 << 30

#: Significant bits of a uniform number: all multiples of 2**-bits in [0, 1) are representable.
UNIFORM_BITS: Final = {
    torch.float64: 53,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
}
#: How numbers are distributed: [0, 1); (0, 1), for what may take the logarithm of either end;
#: the standard normal distribution.
KINDS: Final = ("uniform", "open", "normal")

LIBRARY.define("draw_seed(str place) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
LIBRARY.define(
    "random(Tensor seed, int stream, SymInt[] size, str kind, ScalarType dtype) -> Tensor"
)
LIBRARY.define(
    "random_integers(Tensor seed, int stream, SymInt[] size, SymInt low, SymInt high) -> Tensor"
)


@torch.library.impl(LIBRARY, "draw_seed", "CompositeExplicitAutograd")
def draw_seed(place: str) -> torch.Tensor:
    """A seed from the default generator; ``place`` only keeps the seeds of two places apart."""
    return torch.randint(-(2**63), 2**63 - 1, (), device="cpu")


@torch.library.register_fake("ocl_inductor::draw_seed", lib=LIBRARY)
def _draw_seed_fake(place: str) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64, device="cpu")


@torch.library.impl(LIBRARY, "random", "CompositeExplicitAutograd")
def random_on_host(
    seed: torch.Tensor, stream: int, size: Sequence[int], kind: str, dtype: torch.dtype
) -> torch.Tensor:
    position = torch.arange(math.prod(size), device="cpu").reshape(list(size))
    key, stream = int(seed), FIRST_STREAM + stream

    def bits(count: int) -> torch.Tensor:
        generate = philox.random32 if count < 32 else philox.random64
        return generate(position, key, stream) & ((1 << count) - 1)

    wide = torch.float64 if dtype is torch.float64 else torch.float32
    if kind == "uniform":
        count = UNIFORM_BITS[dtype]
        return (bits(count).to(wide) * 2.0**-count).to(dtype)
    if kind == "open":
        count = UNIFORM_BITS[wide] - 1
        return ((bits(count).to(wide) + 0.5) * 2.0**-count).to(dtype)
    if wide is torch.float64:
        radius = philox.random64(2 * position, key, stream) & (2**63 - 1)
        angle = philox.random64(2 * position + 1, key, stream) & (2**53 - 1)
    else:
        words = philox.random64(position, key, stream)
        radius, angle = words & (2**31 - 1), (words >> 32) & (2**24 - 1)
    radius_bits, angle_bits = (63, 53) if wide is torch.float64 else (31, 24)
    u = radius.to(wide) * 2.0**-radius_bits + 2.0 ** -(radius_bits + 1)
    turn = angle.to(wide) * 2.0**-angle_bits * (2 * math.pi)
    return ((u.log() * -2).sqrt() * turn.cos()).to(dtype)


@torch.library.register_fake("ocl_inductor::random", lib=LIBRARY)
def _random_fake(
    seed: torch.Tensor,
    stream: int,
    size: Sequence[int | torch.SymInt],
    kind: str,
    dtype: torch.dtype,
) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="cpu")


@torch.library.impl(LIBRARY, "random_integers", "CompositeExplicitAutograd")
def random_integers_on_host(
    seed: torch.Tensor, stream: int, size: Sequence[int], low: int, high: int
) -> torch.Tensor:
    position = torch.arange(math.prod(size), device="cpu").reshape(list(size))
    bits = philox.random64(position, int(seed), FIRST_STREAM + stream)
    span = torch.tensor(_wrapped(high - low), device="cpu")
    return low + philox.multiply_high(bits, span)


@torch.library.register_fake("ocl_inductor::random_integers", lib=LIBRARY)
def _random_integers_fake(
    seed: torch.Tensor,
    stream: int,
    size: Sequence[int | torch.SymInt],
    low: int | torch.SymInt,
    high: int | torch.SymInt,
) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int64, device="cpu")


def _wrapped(n: int) -> int:
    """An integer modulo 2**64 as int64 holds it."""
    return (n + 2**63) % 2**64 - 2**63


DRAW_SEED = ops.draw_seed.default
RANDOM = ops.random.default
RANDOM_INTEGERS = ops.random_integers.default
