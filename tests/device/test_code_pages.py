"""The memory of a driver's code is given back, and comes again when it is used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from agreement import compiled, random, two_drivers

from ocl_inductor.device.driver import pyopencl_loader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system shows no mappings")

_HEAD = re.compile(r"[0-9a-f]+-[0-9a-f]+ (r-xp|r--p) \S+ \S+ \d+\s+(/.*)")


def clean_kib(ours: set[str]) -> int:
    """Resident KiB of read-only mappings of all other files that nothing was written to."""
    total = resident = 0
    counts = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            head = _HEAD.fullmatch(line)
            counts = head is not None and head[2] not in ours
        elif counts and line.startswith("Rss:"):
            resident = int(line.split()[1])
        elif counts and line.startswith("Private_Dirty:") and int(line.split()[1]) == 0:
            total += resident
    return total


@pytest.mark.parametrize("driver", two_drivers())
def test_code_is_dropped_and_used_again(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, x = compiled(lambda x: x.exp().cumsum(0), driver), random(33, 17)
    expected = x.exp().cumsum(0)
    torch.testing.assert_close(function(x), expected, rtol=1e-4, atol=1e-4)
    if pyopencl_loader.surveyed() is None:
        pytest.skip("the OpenCL loader opens the drivers here, not we")
    ours = {
        line.split(maxsplit=5)[5]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/" in line and line.split(maxsplit=5)[5] in pyopencl_loader._code()._before
    }
    function(x)  # what it needs is there again, after the first call gave it back
    # Data files and fonts of other libraries are mapped, too; what is new is what drops.
    before = clean_kib(ours)
    # Tests before this one may have spent the time that there is for it.
    monkeypatch.setattr(pyopencl_loader._code(), "_budget", 1.0)
    pyopencl_loader.release_code()
    after = clean_kib(ours)
    assert after < before
    torch.testing.assert_close(function(x), expected, rtol=1e-4, atol=1e-4)


def test_parts_are_opened_one_by_one() -> None:
    """Of each driver the survey knows which large libraries it needs, and not the driver itself."""
    libraries = pyopencl_loader.surveyed()
    if libraries is None:
        pytest.skip("the OpenCL loader opens the drivers here, not we")
    for library in libraries:
        for part in map(Path, library.parts):
            assert part.is_absolute() and part.stat().st_size >= 16 << 20
            assert part.name != Path(library.name).name
    intel = [x for x in libraries if "libintelocl" in x.name]
    assert all(any("common_clang" in part for part in x.parts) for x in intel)
