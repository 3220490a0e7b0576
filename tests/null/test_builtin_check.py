"""Which functions a compiler fails on is found by building them: device/builtin_check.py."""

from __future__ import annotations

import re

import pytest

from ocl_inductor.codegen.printers.primitives import PRIMITIVES
from ocl_inductor.device.builtin_check import FUNCTIONS, failing


@pytest.mark.parametrize("broken", [[], ["rsqrt"], ["acos", "pow", "exp2"], list(FUNCTIONS)])
def test_each_function_that_fails_is_found(broken: list[str]) -> None:
    sources = []

    def builds(source: str) -> bool:
        sources.append(source)
        called = set(re.findall(r"= (\w+)\(", source))
        return not called & set(broken)

    assert failing(builds, 16) == frozenset(broken)
    assert all("float16 *a" in s for s in sources)
    assert len(sources) <= 1 + 14 * max(1, len(broken))


def test_every_builtin_that_primitives_call_is_checked() -> None:
    """Those that are emitted by their own name."""
    named = {n for n in PRIMITIVES if PRIMITIVES[n].emit.__qualname__.startswith("builtin.")}
    assert named and named - {"exp"} <= set(FUNCTIONS)
