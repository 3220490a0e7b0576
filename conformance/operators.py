"""Samples of PyTorch's list of operators, ``op_db``."""

from __future__ import annotations

from typing import Any

import torch

from conformance.cases import Case, Way, at_home, copied, detached, gradients, tensors, widened
from conformance.random_operators import RANDOM, UNINITIALISED
from conformance.rows import BACKWARD, FORWARD, Row
from conformance.ties import without_positions

#: On every device, arguments behind the first one are on the CPU.
_REST_ON_CPU = frozenset({"tensor_split"})


class Operator:
    """One entry, in the dtypes that eager supports on the CPU."""

    def __init__(self, entry: Any) -> None:
        self.entry = entry

    def supports(self, dtype: str, direction: str) -> bool:
        if direction not in (FORWARD, BACKWARD):
            return False
        forward = direction == FORWARD
        has = self.entry.supported_dtypes if forward else self.entry.supported_backward_dtypes
        return getattr(torch, dtype) in has("cpu") and (forward or self.entry.supports_autograd)

    def cases(self, row: Row) -> list[Case]:
        samples = self.entry.sample_inputs(
            "cpu", getattr(torch, row.dtype), requires_grad=row.direction == BACKWARD
        )
        return [self._case(row, sample) for sample in samples]

    def _case(self, row: Row, sample: Any) -> Case:
        function = self.entry.get_op()
        arguments = (sample.input, *sample.args), dict(sample.kwargs)
        run = _backward if row.direction == BACKWARD else _forward

        def called(args: Any, kwargs: Any) -> Any:
            return function(*args, **kwargs)

        def results(way: Way, seed: int) -> Any:
            inputs = _placed(row.op, arguments, way.device)
            torch.manual_seed(seed)
            inputs = widened(inputs) if way.wide else inputs
            found, *others = at_home(run(way.wrap(called), inputs, sample, seed))
            return without_positions(row.op, at_home(inputs[0][0]), sample, found), *others

        return Case(results, row.op in RANDOM, row.op not in UNINITIALISED)


def _placed(op: str, arguments: Any, device: str) -> Any:
    (first, *rest), kwargs = arguments
    there = "cpu" if op in _REST_ON_CPU else device
    return (copied(first, device), *copied(rest, there)), copied(kwargs, there)


def _forward(f: Any, inputs: Any, sample: Any, seed: int) -> Any:
    """The results, and the inputs, which an operator may write."""
    result = f(*inputs)
    return sample.output_process_fn_grad(result), tensors(inputs)


def _backward(f: Any, inputs: Any, sample: Any, seed: int) -> Any:
    """The results, and the gradients of a random weighted sum of them."""
    result = sample.output_process_fn_grad(f(*inputs))
    leaves = [t for t in tensors(inputs) if t.requires_grad]
    return detached(result), gradients(result, leaves, seed)


def operators() -> dict[str, Operator]:
    """PyTorch's list by full name. Its import takes some seconds."""
    from torch.testing._internal import common_methods_invocations as invocations

    # Random operators come wrapped in calls that set a seed, at which Dynamo breaks the graph. The
    # seed is set before each call anyway.
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return {_full_name(op): Operator(op) for op in invocations.op_db}


def _full_name(op: Any) -> str:
    """Unique in the list: several entries share a name and differ in their variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)
