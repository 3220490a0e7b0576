"""Operators that are there for what they raise, kept while dead code is removed.

Until 2.12 AOTAutograd takes an operator without results for dead code: ``torch.linalg.cholesky`` of
a matrix that has no such factor gives numbers instead of its error.
"""

from __future__ import annotations

import functools

import torch
from torch.fx.node import has_side_effect

_CHECKS = (torch.ops.aten._linalg_check_errors.default,)


@functools.cache
def keep_checks() -> None:
    """From now on no graph of this process loses a check whose failure is an exception."""
    for operator in _CHECKS:
        has_side_effect(operator)
