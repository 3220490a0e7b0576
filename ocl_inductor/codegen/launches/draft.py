"""A launch before it is a step of the plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.plan.plan import HostCall


@dataclass(frozen=True, slots=True)
class Draft:
    """A kernel and its launch, with sizes substituted; its program has no number yet."""

    source: KernelSource
    scalars: Sequence[Any]
    global_size: Sequence[Any]
    cost: Cost
    rounds: Any = 0

    @property
    def work_groups(self) -> int:
        """The number of work-groups; sizes must be static."""
        items = math.prod(map(int, self.global_size))
        return items // math.prod(self.source.local_size or (1,))


def as_one(
    drafts: Sequence[Draft | HostCall], join: Callable[[Sequence[KernelSource]], KernelSource]
) -> Draft | HostCall:
    """One launch for several; ``join`` builds its kernel. A single one is unchanged."""
    if len(drafts) == 1:
        return drafts[0]
    own = [d for d in drafts if isinstance(d, Draft)]
    source = join([d.source for d in own])
    costs = [d.cost for d in own]
    cost = Cost(*(sum(getattr(c, f.name) for c in costs) for f in dataclasses.fields(Cost)))
    return Draft(source, [], list(source.global_size), cost, sum(d.rounds for d in own))
