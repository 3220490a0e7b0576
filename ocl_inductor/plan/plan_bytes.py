"""Plans as bytes, to keep them between processes."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ocl_inductor.plan.plan import Plan
from ocl_inductor.plan.staged_plan import StagedPlan


class PlanNotStorable(Exception):
    """The plan holds something that has no meaning in another process; the message names it."""


#: Types that pickle, but only as a copy of something whose identity or state matters.
_NOT_STORABLE = (
    torch.Generator,
    torch.ScriptObject,
    torch.SymInt,
    torch.SymFloat,
    torch.SymBool,
    torch.nn.Module,
)


def dump_plan(plan: Plan | StagedPlan) -> bytes:
    """The plan with its constants.

    Raises:
        PlanNotStorable: a host call takes a subgraph, a generator or an object of TorchScript; or
            it is a chain of plans.
    """
    if not isinstance(plan, Plan):
        raise PlanNotStorable("sizes of the graph depend on data")
    out = io.BytesIO()
    # Constants are real tensors; under a fake mode, pickling would see fake ones.
    with _disable_current_modes():
        try:
            _Pickler(out, protocol=5).dump(plan)
        except PlanNotStorable:
            raise
        except Exception as error:  # a foreign object may raise anything when pickled
            raise PlanNotStorable(f"{type(error).__name__}: {error}") from error
    return out.getvalue()


def load_plan(data: bytes) -> Plan:
    """The plan that ``dump_plan`` wrote. Raises whatever ``pickle`` does for other bytes."""
    with _disable_current_modes():
        plan = pickle.loads(data)
    if not isinstance(plan, Plan):
        raise pickle.UnpicklingError(f"these bytes hold {type(plan).__name__}, not a plan")
    return plan


class _Pickler(pickle.Pickler):
    """Operators go by name: PyTorch's own objects for them do not pickle."""

    def reducer_override(self, x: object) -> Any:
        if isinstance(x, torch._ops.OpOverload):
            return _overload, (x.namespace, x._opname, x._overloadname)
        if isinstance(x, _NOT_STORABLE):
            raise PlanNotStorable(f"a host call takes a {type(x).__name__}")
        if isinstance(x, torch.Tensor) and type(x) is not torch.Tensor:
            raise PlanNotStorable(f"a constant is a {type(x).__name__}")
        return NotImplemented


def _overload(namespace: str, name: str, overload: str) -> torch._ops.OpOverload:
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, overload)
