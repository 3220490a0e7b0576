"""Python kernels of operators under the dispatch key Autograd, replaced while graphs are traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch


@contextlib.contextmanager
def replaced(kernels: Mapping[Any, Any]) -> Iterator[None]:
    """Operators that have such a kernel are traced as ours say, with their gradients."""
    key = torch._C.DispatchKey.Autograd
    saved = {op: op.py_kernels[key] for op in kernels if key in op.py_kernels}

    def put(functions: dict[Any, Any]) -> None:
        for op, kernel in functions.items():
            op.py_kernels[key] = kernel
            op._dispatch_cache.clear()

    put({op: kernels[op] for op in saved})
    try:
        yield
    finally:
        put(saved)
