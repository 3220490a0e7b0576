"""The results of a call: tensors, sizes and constants, and inputs that are updated from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ocl_inductor.plan.plan import OutputSpec, Plan
from ocl_inductor.resident.tensors import note_write
from ocl_inductor.runtime.forms import as_lying, as_seen
from ocl_inductor.runtime.plan_index import PlanIndex
from ocl_inductor.runtime.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Results:
    """Makes the results of one plan's calls.

    ``given``: the noted inputs of the current call, as the caller passed them; ``used``: the
    tensors that kernels worked on; ``host``: by name, values of the host that are not buffers.
    """

    plan: Plan
    plan_index: PlanIndex
    sizes: Sizes
    given: Mapping[str, torch.Tensor]
    used: Mapping[str, torch.Tensor]
    host: Mapping[str, Any]

    def make(self, produced: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
        """All results, in their order; ``produced``: the outputs of this call."""
        if self.plan.updates or self.plan_index.overwritten:
            self._update_inputs(produced)
        return tuple(self._result(o, produced) for o in self.plan.outputs)

    def _update_inputs(self, produced: Mapping[str, torch.Tensor]) -> None:
        """Copy results to updated inputs, and back to inputs of which kernels wrote a copy."""
        with torch.no_grad():
            specs = self.plan.updates
            inputs = any(o.name in self.plan_index.inputs for _, o in specs)
            sources = [(name, self._source(name, o, produced)) for name, o in specs]
            if inputs and len(specs) > 1:  # one may be a view of an input that another fills
                sources = [(n, x.clone()) for n, x in sources]
            for name, source in sources:
                self.given[name].copy_(source)
            for name in self.plan_index.overwritten:
                given, used = self.given[name], self.used[name]
                if self.plan.residence is not None:
                    note_write(used)
                if used.data_ptr() != given.data_ptr():
                    given.copy_(used)

    def _source(self, name: str, o: OutputSpec, produced: Mapping[str, torch.Tensor]) -> Any:
        """What is copied to an input, in the form in which that is here."""
        spec = self.plan_index.inputs.get(name)
        source = self._result(o, produced)
        if spec is None or spec.form == o.form:
            return source
        return as_lying(as_seen(source, o.form), spec.form)

    def _result(self, o: OutputSpec, produced: Mapping[str, torch.Tensor]) -> Any:
        if o.kind == "tensor":
            size, stride = self.sizes.all(o.size), self.sizes.all(o.stride)
            given = self.given.get(o.name)
            if given is not None:  # a view of the tensor that the caller passed
                offset = self.sizes(o.offset)
                if offset == 0 and given.shape == size and given.stride() == stride:
                    return given  # itself: ragged sizes are known by the tensor they belong to
                return given.as_strided(size, stride, given.storage_offset() + offset)
            base = produced[self.plan_index.root(o.name)]
            if base.shape == size and base.stride() == stride:
                return base
            return base.as_strided(size, stride, base.storage_offset() + self.sizes(o.offset))
        if o.kind == "host":
            return self.host[o.name]
        if o.kind == "real":
            return self.sizes.number(o.value)
        return self.sizes(o.value) if o.kind == "size" else o.value
