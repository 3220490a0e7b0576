"""Philox4x32-10 in torch integers: what kernels compute, for the host and for tests.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A counter-based
generator: a keyed bijection of 128-bit counters, so that any element is computed by itself. Words
are int64 tensors with values in ``[0, 2**32)``.
"""

from __future__ import annotations

from typing import TypeAlias

import torch

Words: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]

ROUNDS = 10
_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and the square root of 3, minus 1


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Four random words for each counter; ``key`` holds two words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        # Multiplication wraps modulo 2**64, which is all the bits there are.
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (_high(b) ^ c1 ^ k0, b & _MASK, _high(a) ^ c3 ^ k1, a & _MASK)
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return c0, c1, c2, c3


def random32(position: torch.Tensor, seed: int, stream: int) -> torch.Tensor:
    """The 32 random bits at each position (int64) as int32: a counter serves four positions."""
    words = torch.stack(_words(position >> 2, seed, stream))
    chosen = words.gather(0, (position & 3).unsqueeze(0)).squeeze(0)
    return (chosen - ((chosen >> 31) << 32)).to(torch.int32)


def random64(position: torch.Tensor, seed: int, stream: int) -> torch.Tensor:
    """The 64 random bits at each position (int64) as int64: a counter serves two positions."""
    w = _words(position >> 1, seed, stream)
    low, high = w[0] | (w[1] << 32), w[2] | (w[3] << 32)
    return torch.where((position & 1) == 0, low, high)


def multiply_high(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The upper 64 bits of the product of int64 tensors, both taken as unsigned."""
    a0, a1, b0, b1 = a & _MASK, _high(a), b & _MASK, _high(b)
    middle = a1 * b0 + _high(a0 * b0)
    other = a0 * b1 + (middle & _MASK)
    return a1 * b1 + _high(middle) + _high(other)


def _words(block: torch.Tensor, seed: int, stream: int) -> Words:
    zero = torch.zeros_like(block)
    counter = (block & _MASK, _high(block), zero + (stream & _MASK), zero)
    return philox(counter, (seed & _MASK, (seed >> 32) & _MASK))


def _high(x: torch.Tensor) -> torch.Tensor:
    return (x >> 32) & _MASK
