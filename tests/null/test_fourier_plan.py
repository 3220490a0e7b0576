"""How the rows of Fourier transforms are shared out: stages, work-items, local memory."""

from __future__ import annotations

import dataclasses
import math

import pytest
from evaluate import make_device

from ocl_inductor.templates.fourier.plan import (
    MOST_RADIX,
    StagePlan,
    local_index,
    plan,
    stage_radices,
)


@pytest.mark.parametrize(
    ("n", "radices"),
    [(64, (8, 8)), (256, (16, 16)), (400, (20, 20)), (1000, (10, 10, 10)), (1024, (16, 8, 8))],
)
def test_as_few_and_as_equal_stages_as_can_be(n: int, radices: tuple[int, ...]) -> None:
    assert stage_radices(n) == radices


@pytest.mark.parametrize("local", [1 << 14, 48 << 10])
@pytest.mark.parametrize("items", [64, 256, 1024])
@pytest.mark.parametrize("across", [False, True])
def test_plans_keep_to_the_device(local: int, items: int, across: bool) -> None:
    device = dataclasses.replace(
        make_device(), profile="simt", max_work_group_size=items, local_mem_bytes=local
    )
    taken = 0
    for n in range(2, 1400):
        found = plan(device, n, 8, across)
        if isinstance(found, str):
            continue
        taken += 1
        assert math.prod(s.radix for s in found.stages) == n
        assert max(s.radix for s in found.stages) <= MOST_RADIX
        assert found.group <= items and 8 * found.rows * found.pitch <= local
        for s in found.stages:
            assert s.butterflies * s.radix == n and s.each * found.items >= s.butterflies
            assert (s.each - 1) * found.items < s.butterflies
        assert len(found.stages) == 1 or local_index(n - 1, found.padded) < found.pitch
    assert taken == sum(bool(stage_radices(n)) for n in range(2, 1400))


@pytest.mark.parametrize(
    ("n", "reason"),
    [
        (1, "one point"),
        (17 * 4, "68 points have a prime factor over 13"),
        (1980, "1980 points are too many for 64 work-items"),
        (2000, "2000 points need 17000 bytes of local memory"),
    ],
)
def test_why_there_is_no_plan(n: int, reason: str) -> None:
    device = dataclasses.replace(
        make_device(), profile="simt", max_work_group_size=64, local_mem_bytes=16000
    )
    assert plan(device, n, 8, across=False) == reason


def test_rows_of_a_group() -> None:
    device = dataclasses.replace(make_device(), profile="simt", max_work_group_size=256)

    def group(n: int, across: bool) -> tuple[int, int]:
        found = plan(device, n, 8, across)
        assert isinstance(found, StagePlan)
        return found.items, found.rows

    # Half of the local memory, 16 KiB, or a whole line of neighbours where all of it allows.
    assert [group(n, False) for n in (64, 256, 1000)] == [(8, 16), (16, 6), (100, 1)]
    assert [group(n, True) for n in (64, 256, 1000)] == [(8, 16), (16, 8), (100, 2)]
