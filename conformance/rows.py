"""What is checked: one row an operator of PyTorch's list, dtype and direction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FORWARD, BACKWARD = "forward", "backward"

#: Dtypes of the forward direction, by name; the backward direction is checked in float32.
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")

#: Statuses from best to worst. ``eager_fails``: there is nothing to compare with.
NATIVE, FALLBACK, FAIL, EAGER_FAILS = "native", "fallback", "fail", "eager_fails"
RANK = {NATIVE: 0, EAGER_FAILS: 0, FALLBACK: 1, FAIL: 2}


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """An operator (its name and variant, as in PyTorch's list) in one dtype and direction."""

    op: str
    dtype: str
    direction: str


@dataclass(frozen=True, slots=True)
class Result:
    """How a row went: the worst status of its samples.

    ``fallbacks``: what did not run on the device, as named by the backend's counters, with the
    reason that the compiler gave.
    """

    row: Row
    status: str
    fallbacks: dict[str, str] = field(default_factory=dict)
    detail: str = ""
    samples: int = 0
    seconds: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return fields.pop("row") | fields

    @staticmethod
    def from_json(entry: dict[str, Any]) -> Result:
        row = Row(entry["op"], entry["dtype"], entry["direction"])
        rest = {k: v for k, v in entry.items() if k not in ("op", "dtype", "direction")}
        return Result(row, **rest)


def full_name(op: Any) -> str:
    """Unique in the list: several entries share a name and differ in their variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def operators() -> dict[str, Any]:
    """PyTorch's list by full name. Its import takes some seconds."""
    from torch.testing._internal import common_methods_invocations as invocations

    # Random operators come wrapped in calls that set a seed, at which Dynamo breaks the graph. The
    # seed is set before each call anyway.
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return {full_name(op): op for op in invocations.op_db}


def all_rows(
    ops: dict[str, Any],
    dtypes: Sequence[str] = DTYPES,
    directions: Sequence[str] = (FORWARD, BACKWARD),
    only: Sequence[str] = (),
) -> Iterator[Row]:
    """Rows that eager supports on the CPU. ``only``: patterns, of which one must match a name."""
    import torch

    for direction in directions:
        for dtype in dtypes:
            if direction == BACKWARD and dtype != "float32":
                continue
            kind = getattr(torch, dtype)
            for name, op in sorted(ops.items()):
                if only and not any(re.fullmatch(pattern, name) for pattern in only):
                    continue
                has = op.supported_dtypes if direction == FORWARD else op.supported_backward_dtypes
                if kind in has("cpu") and (direction == FORWARD or op.supports_autograd):
                    yield Row(name, dtype, direction)
