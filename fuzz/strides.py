"""Which strides results may have: eager's, or those that PyTorch's tracing takes for eager's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from fuzz.program import Program, Sizes
from fuzz.run import run


def wrong_strides(
    program: Program, sizes: Sizes, actual: Sequence[Any], eager: Sequence[Any]
) -> str:
    """What is wrong with the strides of outputs; those of gradients are AOTAutograd's affair."""
    said = strides_problem(actual, eager, _by_fake_tensors(program, sizes))
    return said and strides_problem(actual, eager, _by_autograd(program, sizes))


def strides_problem(actual: Sequence[Any], eager: Sequence[Any], traced: Sequence[Any]) -> str:
    for k, (a, e, t) in enumerate(zip(actual, eager, traced)):
        if isinstance(e, torch.Tensor) and _strides(a) not in (_strides(e), _strides(t)):
            return f"result {k}: strides {a.stride()} instead of {e.stride()} of {list(e.shape)}"
    return ""


def _strides(x: torch.Tensor) -> tuple[int, ...]:
    """Strides that mean something."""
    if x.numel() == 0:
        return ()
    return tuple(s for s, n in zip(x.stride(), x.shape) if n > 1)


def _by_fake_tensors(program: Program, sizes: Sizes) -> list[Any]:
    """Outputs as tensors without numbers; none where the program reads numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    inputs = program.make_inputs(sizes)
    with suppress(Exception), FakeTensorMode() as mode:
        made = {i.name: mode.from_tensor(inputs[i.name]) for i in program.inputs if not i.alias}
        for i in program.inputs:
            if i.alias:
                made[i.name] = i.make(sizes, made, wide=False)
        return list(program.function()(*(made[i.name] for i in program.inputs)))
    return []


def _by_autograd(program: Program, sizes: Sizes) -> list[Any]:
    """Outputs with the strides of AOTAutograd's graph, by which a compiler goes."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    def restrided(gm: torch.fx.GraphModule, _: Sequence[Any]) -> Any:
        promised = [n.meta["val"] if isinstance(n, torch.fx.Node) else n
                    for n in gm.graph.output_node().args[0]]  # fmt: skip

        def call(*args: Any) -> list[Any]:
            return [_laid_out(x, p) for x, p in zip(gm(*args), promised, strict=True)]

        return make_boxed_func(call)

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=restrided)
    compiled = torch.compile(program.function(), backend=backend, dynamic=program.dynamic)
    return run(program, compiled, sizes)


def _laid_out(x: Any, promised: Any) -> Any:
    """A tensor of its own as ``promised``; a view as it is."""
    if not isinstance(x, torch.Tensor) or x._is_view():
        return x
    strides = [int(s) for s in promised.stride()]
    return torch.empty_strided(x.shape, strides, dtype=x.dtype).copy_(x)
