"""Runs a chain of plans whose sizes depend on data."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from ocl_inductor.device.device import Device
from ocl_inductor.plan.plan import HostCall, SizeRef, TensorRef
from ocl_inductor.plan.staged_plan import HostStage, Learned, PlanStage, Result, StagedPlan, Step
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.memory.resident import arrival_of
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.settings import Settings


class StagedExecutor:
    """``executor([inputs]) -> tuple of outputs``, as :class:`Executor`. Calls share no state."""

    def __init__(self, plan: StagedPlan, device: Device, settings: Settings) -> None:
        self.plan = plan
        self.arrive = arrival_of(plan.residence, [r.kind for r in plan.results], device)
        self.executors = {
            id(step): Executor(step.stage.plan, device, settings)
            for step in plan.steps
            if isinstance(step.stage, PlanStage)
        }
        strategies = (executor.discrete for executor in self.executors.values())
        #: The loans of the devices, usually one, on which plans have discrete memory.
        self.loans = frozenset(d.loans for d in strategies if d is not None)

    def __call__(self, args: list[object]) -> tuple[object, ...]:
        inputs = list(args)
        args.clear()  # boxed calling convention: the caller's references go away here
        self._end_loans(inputs)
        results = _Call(self, inputs).run()
        return results if self.arrive is None else self.arrive(results)

    def _end_loans(self, inputs: list[object]) -> None:
        """These plans do not know which inputs are passed on to a backward graph, which could
        otherwise find an outdated loan of the same tensor by another graph."""
        for loans in self.loans:
            for x in inputs:
                if isinstance(x, torch.Tensor):
                    loans.end(x.data_ptr())


class _Call:
    def __init__(self, owner: StagedExecutor, inputs: list[object]) -> None:
        self.owner = owner
        self.values: dict[str, Any] = dict(zip(owner.plan.inputs, inputs, strict=True))
        self.sizes = Sizes(())
        self.sizes.bind({symbol: self.values[name] for name, symbol in owner.plan.sizes})

    def run(self) -> tuple[Any, ...]:
        for step in self.owner.plan.steps:
            self._stage(step)
            for learned in step.learned:
                self.sizes.define(learned.symbol, self._value(learned))
            for check in step.checks:
                if not self.sizes.number(check.condition):
                    raise RuntimeError(check.message)
        return tuple(map(self._result, self.owner.plan.results))

    def _result(self, result: Result) -> Any:
        if result.kind == "value":
            return self.values[result.value]
        if result.kind == "size":
            return self.sizes(result.value)
        return self.sizes.number(result.value) if result.kind == "real" else result.value

    def _value(self, learned: Learned) -> int | float:
        value = self.values[learned.name]
        if learned.item:
            value = value.item()
        found = pytree.key_get(value, learned.path)
        return found if isinstance(found, float) else int(found)

    def _stage(self, step: Step) -> None:
        stage = step.stage
        if isinstance(stage, PlanStage):
            known = {**self.sizes.values, **self.values}
            inputs = [known[n] for n in stage.inputs]
            results = self.owner.executors[id(step)](inputs)
            self.values |= dict(zip(stage.results, results, strict=True))
        elif isinstance(stage, HostStage):
            self._host(stage.call, stage.results)

    def _host(self, call: HostCall, names: tuple[tuple[int | None, str], ...]) -> None:
        args = [self._argument(a) for a in call.args]
        kwargs = {k: self._argument(v) for k, v in call.kwargs}
        with torch.no_grad():
            result = call.operator(*args, **kwargs)
        for position, name in names:
            self.values[name] = result if position is None else result[position]

    def _argument(self, x: object) -> Any:
        if isinstance(x, TensorRef):
            return self.values[x.name]
        if isinstance(x, SizeRef):
            return self.sizes.number(x.value) if x.real else self.sizes(x.value)
        if isinstance(x, (tuple, list)):
            return type(x)([self._argument(y) for y in x])
        return x
