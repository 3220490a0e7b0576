"""Which of OpenCL's functions a driver's compiler cannot build for vectors.

A compiler that crashes on a function does so in each kernel that calls it. So when it has failed
once, every function that kernels call is built separately, and those that fail are avoided from
then on: by our own formula, or one lane at a time (codegen/printers/forms.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Float builtins that emitted code uses, by the number of their arguments.
FUNCTIONS = {
    **dict.fromkeys(
        "acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 fabs floor lgamma "
        "log log10 log1p log2 rint rsqrt sin sinh sqrt tan tanh trunc".split(),
        1,
    ),
    **dict.fromkeys("atan2 copysign fmax fmin fmod hypot nextafter pow".split(), 2),
}

#: Whether the compiler builds a source.
Builds = Callable[[str], bool]


def failing(builds: Builds, lanes: int) -> frozenset[str]:
    """Those of ``FUNCTIONS`` that do not build for vectors of ``lanes`` floats."""
    return frozenset(_failing(builds, lanes, tuple(FUNCTIONS)))


def _failing(builds: Builds, lanes: int, names: Sequence[str]) -> list[str]:
    if builds(_source(names, lanes)):
        return []
    if len(names) == 1:
        return list(names)
    half = len(names) // 2
    return [*_failing(builds, lanes, names[:half]), *_failing(builds, lanes, names[half:])]


def _source(names: Sequence[str], lanes: int) -> str:
    kind = f"float{lanes}"
    calls = (
        f"  a[{n}] = {name}({', '.join([f'a[{n}]'] * FUNCTIONS[name])});"
        for n, name in enumerate(names)
    )
    return "\n".join((f"__kernel void functions(__global {kind} *a) {{", *calls, "}\n"))
