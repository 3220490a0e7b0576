"""The generator in torch, against the published vectors and Python's integers."""

from __future__ import annotations

import random

import pytest
import torch
from known_answers import KNOWN_ANSWERS

from ocl_inductor.operators.philox import multiply_high, philox, random32, random64


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    a, b, c, d = (torch.tensor([w]) for w in counter)
    assert tuple(int(w) for w in philox((a, b, c, d), key)) == answer


SEEDS = (0, -1, 123456789, -(2**63), 2**63 - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_positions_take_words_in_turn(seed: int) -> None:
    """The same words, whether four positions share a counter or two do."""
    first = 2**40 + 4
    position = torch.arange(first, first + 64)
    words = random32(position, seed, 7).long() & 0xFFFFFFFF
    pairs = random64(torch.arange(first // 2, first // 2 + 32), seed, 7)
    assert torch.equal(words[0::2], pairs & 0xFFFFFFFF)
    assert torch.equal(words[1::2], (pairs >> 32) & 0xFFFFFFFF)
    block = torch.tensor([first >> 2])
    low, high = block & 0xFFFFFFFF, block >> 32
    key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
    answer = philox((low, high, torch.tensor([7]), torch.tensor([0])), key)
    assert [int(w) for w in answer] == words[:4].tolist()


def test_streams_and_seeds_differ() -> None:
    position = torch.arange(1000)
    draws = [random32(position, seed, stream) for seed in (0, 1, 2**32) for stream in (0, 1)]
    for i, a in enumerate(draws):
        for b in draws[:i]:
            assert int((a == b).sum()) < 2


def test_multiply_high() -> None:
    source = random.Random(0)
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    pairs = [(a, b) for a in edges for b in edges]
    pairs += [(source.getrandbits(64), source.getrandbits(64)) for _ in range(100)]

    def signed(n: int) -> int:
        return n - 2**64 if n >= 2**63 else n

    a, b = (torch.tensor([signed(p[k]) for p in pairs]) for k in (0, 1))
    assert multiply_high(a, b).tolist() == [signed(x * y >> 64) for x, y in pairs]
