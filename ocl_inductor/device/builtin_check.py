"""Which of OpenCL's functions a driver's compiler cannot build for vectors.

A compiler that crashes on a function does so in each kernel that calls it. So when it has failed
once, every function that kernels call is built separately, and those that fail are avoided from
then on: by our own formula, or one lane at a time (codegen/printers/forms.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence


@functools.cache
def functions() -> dict[str, int]:
    """Float builtins that emitted code uses, by the number of their arguments."""
    # Imported here: a plan is replayed without the compiler's modules.
    from ocl_inductor.ir.ops import ROWS, PrintForm

    of_rows = {
        p.text: row.arity for row in ROWS for p in row.printers() if p.form is PrintForm.BUILTIN
    }
    # Those that printers which are functions, formulas and the library call.
    return {**of_rows, "fmod": 2, "pow": 2}


#: Whether the compiler builds a source.
Builds = Callable[[str], bool]


def failing(builds: Builds, lanes: int) -> frozenset[str]:
    """Those of :func:`functions` that do not build for vectors of ``lanes`` floats."""
    return frozenset(_failing(builds, lanes, tuple(functions())))


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
        f"  a[{n}] = {name}({', '.join([f'a[{n}]'] * functions()[name])});"
        for n, name in enumerate(names)
    )
    return "\n".join((f"__kernel void functions(__global {kind} *a) {{", *calls, "}\n"))
