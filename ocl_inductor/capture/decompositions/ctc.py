"""``torch.nn.functional.ctc_loss`` without a graph break: Dynamo traces the function here instead.

Dynamo breaks the graph at the operator itself, since the shape of one of its results depends on
data (see :mod:`ocl_inductor.operators.ctc`). Other backends are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import BaseListVariable

from ocl_inductor.capture.decompositions.traced_calls import example, handler
from ocl_inductor.ir.dtypes import INDEX_DTYPES
from ocl_inductor.operators.ctc import CTC_LOSS
from ocl_inductor.operators.require import ops
from ocl_inductor.patches.pytorch.ctc_handlers import handle

_MEAN, _SUM = 1, 2
_REDUCTIONS = {"none": 0, "mean": _MEAN, "sum": _SUM}


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: object,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
) -> Tensor:
    """As ``torch.ctc_loss``, with all its reductions: ``log_probs`` [T, N, C] or [T, C]."""
    batched = log_probs.dim() == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    input_lengths = _lengths("input", input_lengths, log_probs.shape[0])
    target_lengths = _lengths("target", target_lengths, targets.shape[-1])
    if targets.dim() == 1:
        fill = target_lengths.sum() == targets.shape[0]
        target_lengths = ops.require(target_lengths, fill, _NOT_ALL)
    loss = CTC_LOSS(
        log_probs,
        targets.to(torch.int64),
        input_lengths,
        target_lengths,
        blank,
        zero_infinity,
    )[0]
    if zero_infinity:
        loss = torch.where(loss == torch.inf, 0, loss)
    if reduction == _MEAN:
        return (loss / target_lengths.to(loss.dtype).clamp_min(1)).mean()
    if reduction == _SUM:
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def functional_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: object,
    target_lengths: object,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """As ``torch.nn.functional.ctc_loss``."""
    how = _REDUCTIONS[reduction]
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)


_MOST = {"input": "the steps of log_probs", "target": "the width of targets"}
_NOT_ALL = "Expected targets to be as many as target_lengths say"


def _lengths(name: str, lengths: object, most: int) -> Tensor:
    """The lengths as a vector, as eager uses them."""
    if isinstance(lengths, Tensor):
        x = lengths.to(torch.int64).reshape(-1)
    else:
        x = torch.tensor(lengths, dtype=torch.int64)
    x = ops.require(x, x >= 0, f"Expected {name}_lengths to have value at least 0")
    return ops.require(x, x <= most, f"Expected {name}_lengths to have value at most {_MOST[name]}")


_TRACED: dict[Callable[..., object], Callable[..., object]] = {
    torch.ctc_loss: ctc_loss,
    torch.nn.functional.ctc_loss: functional_ctc_loss,
}


def trace_ctc_loss() -> None:
    """Make Dynamo trace the functions above in graphs for this backend."""
    handle({f: handler(traced, _covered) for f, traced in _TRACED.items()})


def _covered(
    log_probs: VariableTracker | None = None,
    targets: VariableTracker | None = None,
    input_lengths: VariableTracker | None = None,
    target_lengths: VariableTracker | None = None,
    *_: VariableTracker,
    **__: VariableTracker,
) -> bool:
    """Whether eager supports these dtypes, dimensions and lengths on a CPU."""
    x, labels = example(log_probs), example(targets)
    if x is None or x.dtype not in (torch.float32, torch.float64) or x.dim() not in (2, 3):
        return False
    if labels is None or labels.is_complex() or labels.dim() not in (1, 2):
        return False
    if input_lengths is None or target_lengths is None:
        return False
    lengths = [input_lengths.realize(), target_lengths.realize()]
    return all(map(_are_integral, lengths)) or all(map(_are_numbers, lengths))


def _are_integral(lengths: VariableTracker) -> bool:
    x = example(lengths)
    return x is not None and x.dtype in INDEX_DTYPES


def _are_numbers(lengths: VariableTracker) -> bool:
    return isinstance(lengths, BaseListVariable) and all(
        x.python_type() is int for x in lengths.unpack_var_sequence(None)
    )
