"""Descriptions of devices: those that come along, a user's own, and bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocl_inductor.device.described import BadTargetError, find_target, target_names
from ocl_inductor.errors import UnknownOptionError
from ocl_inductor.settings import Settings

GOOD = """\
description: a GPU of mine
compute_units: 3
max_work_group_size: 128
local_memory: 20KiB
sub_group_sizes: [4, 8]
fp16: false
fp64: true
unified_memory: true
opencl_c: "1.2"
"""


@pytest.mark.parametrize("name", target_names())
def test_those_that_come_along(name: str) -> None:
    target = find_target(name)
    assert target is not None and target.name == name
    assert target.max_work_group_size >= 64 and target.local_memory >= 16 << 10


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    target = Settings.resolve(options={"target": str(path)}).target
    assert target is not None
    assert (target.name, target.local_memory, target.opencl_c) == ("mine", 20 << 10, (1, 2))
    assert target.sub_group_sizes == (4, 8)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("compute_units: 3", "compute_units: 0"), "compute_units"),
        (("compute_units: 3\n", ""), "compute_units"),
        (("fp16: false", "fp16: 2"), "fp16"),
        (("20KiB", "lots"), "local_memory"),
        (("fp64", "fp128"), "fp128"),
        (('"1.2"', '"new"'), "opencl_c"),
        ((GOOD, ": ["), "does not describe a device"),
        ((GOOD, "- 1"), "does not describe a device"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(GOOD.replace(*change))
    with pytest.raises(BadTargetError, match=says):
        find_target(str(path))


def test_an_unknown_name_lists_those_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_TARGET", "rx-9999")
    with pytest.raises(UnknownOptionError, match=r"rx-580.*\.yaml file"):
        Settings.resolve()
    monkeypatch.setenv("OCL_INDUCTOR_TARGET", "rx-580")
    target = Settings.resolve().target
    assert target is not None and target.name == "rx-580"
