"""Which functions a compiler fails on is found by building them: device/builtin_check.py."""

from __future__ import annotations

import re

import pytest

from ocl_inductor.device.builtin_check import failing, functions


@pytest.mark.parametrize("broken", [[], ["rsqrt"], ["acos", "pow", "exp2"], list(functions())])
def test_each_function_that_fails_is_found(broken: list[str]) -> None:
    sources = []

    def builds(source: str) -> bool:
        sources.append(source)
        called = set(re.findall(r"= (\w+)\(", source))
        return not called & set(broken)

    assert failing(builds, 16) == frozenset(broken)
    assert all("float16 *a" in s for s in sources)
    assert len(sources) <= 1 + 14 * max(1, len(broken))


def test_those_that_primitives_call_are_checked() -> None:
    """By the names that OpenCL has for them."""
    assert functions()["fabs"] == 1 and functions()["rint"] == 1 and functions()["hypot"] == 2
