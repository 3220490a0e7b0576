"""What a program should give: in float64, and how far rounding may lead from there.

The reference runs line by line in float64, a few times with noise: after each line its results
move by about a unit in the last place of the type that they have in eager. The spread of these runs
says, element by element, how much of a difference is rounding, whatever cancels or is amplified on
the way; where an integer, a comparison or an index differs between them, it is undecided. So a
tolerance is never a guess.

Steps say what they do to rounding errors:

- exact: views, copies, comparisons, selections. No noise: ties stay ties.
- round: sums and products of two. No noise where the result is a number of the type anyway.
- function: noise in the result.
- sum: accumulations. Noise in what is added, unless every result is a number of the type; then
  in the gradient alone.
- cancels: noise in the result, in units of what is read: one and a tanh near -1, say.
- norm: noise in what is read, in the result, and in what is kept for the gradient. That of a
  softmax is ``y * (g - sum(g * y))``: next to ``y = 1`` it is off by the rounding of ``y``. Where
  a bias is added, which may cancel, the result has noise in units of the bias as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from fuzz.program import CANCELS, EXACT, NORM, ROUND, SUM, Program, Sizes, Step, in_float64
from fuzz.run import finish

#: Names of a run, with the dtype that each has in eager.
Dtypes = Mapping[str, torch.dtype]

#: Exact steps that read elements at places: their gradients are scattered.
_GATHERS = re.compile(r"index_select\(|gather\(|embedding\(|take|nearest|\[[^]]*%")

#: Sums that are divided by their length, and so is the gradient.
_MEANS = re.compile(r"mean|avg|area")

#: Exact steps whose results hold a tensor several times, where they name it so: its gradient is a
#: sum.
_JOINS = re.compile(r"stack\(|cat\(")

#: Runs with noise: usually, and before a result is called wrong.
FEW, MANY = 3, 64


@dataclass(frozen=True, slots=True)
class Reference:
    """Results in float64, and of the same with noise."""

    exact: list[Any]
    noisy: list[list[Any]]


def reference(program: Program, sizes: Sizes, runs: int = FEW) -> Reference:
    dtypes = eager_dtypes(program, sizes)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        exact = _run(program, sizes, dtypes, None)
        noise = [torch.Generator().manual_seed(k) for k in range(runs)]
        return Reference(exact, [_run(program, sizes, dtypes, n) for n in noise])
    finally:
        torch.set_default_dtype(default)


def eager_dtypes(program: Program, sizes: Sizes) -> dict[str, torch.dtype]:
    env: dict[str, Any] = {"torch": torch, "F": F, **program.make_inputs(sizes)}
    for step in program.steps:
        exec(step.line, env)
    return {k: v.dtype for k, v in env.items() if isinstance(v, torch.Tensor)}


def _run(
    program: Program, sizes: Sizes, dtypes: Dtypes, noise: torch.Generator | None
) -> list[Any]:
    inputs = program.make_inputs(sizes, wide=True)
    env: dict[str, Any] = {"torch": torch, "F": F, **inputs}
    for step in program.steps:
        if noise is None or step.rounding == EXACT:
            exec(in_float64(step.line), env)
            if noise is None:
                continue
            scattered = _is_scattered_into_a_sum(step, program)
            for t in step.targets:
                if scattered or _uses(t, program) > 1:  # autograd adds up what its users give
                    env[t] = _noisy_gradient(env[t], dtypes[t], noise, rounds=False)
        else:
            _noisy_step(step, env, dtypes, noise)
    outputs = [env[name] for name in program.outputs]
    return finish(list(inputs.values()), outputs, program.backward)


def _noisy_step(step: Step, env: dict[str, Any], dtypes: Dtypes, noise: torch.Generator) -> None:
    line = in_float64(step.line)
    if not step.targets:  # it writes memory: what it writes is what it reads first
        exec(line, env)
        x, dtype = env[step.reads[0]], dtypes[step.reads[0]]
        if _is_float(x):  # behind autograd's back, which may have saved it
            x.data.mul_(1 + _noise(x, dtype, noise, step.rounding == ROUND))
        return
    if step.rounding in (SUM, NORM):
        made = dict(env)
        before = {k: env[k].detach().clone() for k in step.reads if _is_float(env[k])}
        exec(line, made)
        for k, old in before.items():  # a running mean: what it was, and what is added, cancel
            x = env[k].data
            written = _random(x, noise) * _epsilon(dtypes[k]) * (x.abs() + old.abs())
            x.add_(torch.where(x == old, 0.0, written))
        if step.rounding == SUM and all(_is_exact(made[t], dtypes[t]) for t in step.targets):
            rounds = _MEANS.search(step.text) is None
            for t in step.targets:
                env[t] = _noisy_gradient(made[t], dtypes[t], noise, rounds)
            return
        saved = {k: env[k] for k in step.reads}
        finest = min((_epsilon(dtypes[t]) for t in step.targets), default=0.0)
        for k, x in saved.items():
            if _is_float(x):
                env[k] = x * (1 + _random(x, noise) * max(_epsilon(dtypes[k]), finest))
                if step.rounding == NORM:  # squares of what is near there are 0 or not
                    env[k] = env[k] + _random(x, noise) * _smallest(dtypes[k])
        if step.rounding == NORM:
            epsilon = max((_epsilon(dtypes[t]) for t in step.targets), default=0.0)
            with _kept_with_noise(epsilon, noise, float(_has_logarithms(step))):
                exec(line, env)
            for t in step.targets:
                env[t] = env[t] + _random(env[t], noise) * epsilon * _bias(step, saved, env[t])
        else:
            exec(line, env)
        env.update({k: v for k, v in saved.items() if k not in step.targets})
    else:
        exec(line, env)
    if "sinc(" in step.line:
        (t,), x = step.targets, env[step.reads[0]]
        env[t] = env[t] + _random(x, noise) * _epsilon(dtypes[t]) * _slope_of_sinc(x)
    if step.rounding == CANCELS:
        (t,), x = step.targets, env[step.reads[0]]
        # Not of a detached x: what arrives at its gradient is a sum that cancels as well.
        env[t] = env[t] + _random(x, noise) * _epsilon(dtypes[t]) * x
    for t in step.targets:
        env[t] = _shaken(env[t], dtypes[t], noise, step.rounding == ROUND)


def _bias(step: Step, reads: Mapping[str, Any], result: torch.Tensor) -> torch.Tensor | float:
    """What cancels in an element of the result: with the last vector that a norm reads, with the
    sum of a softmax, which was rounded next to 1 before its logarithm was taken, with 1
    (a cosine, in each row of a sum), with another distance, in the gradient of a grid, or between
    the terms of a Fourier transform, whose sums are off by units of all they are made of."""
    if _has_logarithms(step):
        return 1.0
    if "grid_sample(" in step.line:
        return _slopes(step, reads)
    if "torch.fft." in step.line:
        return _of_transforms(step, reads)
    if "triplet_margin_loss(" in step.line:  # a distance less another
        x, y = (reads[k].detach() for k in step.reads[:2])
        distances = torch.linalg.vector_norm(x - y, dim=-1)
        largest = max(distances[distances.isfinite()].tolist(), default=0.0)
        return largest * math.sqrt(distances.numel()) if "'sum'" in step.line else largest
    if "cosine_embedding_loss(" in step.line:
        rows = max(x.shape[0] for x in reads.values())
        return math.sqrt(rows) if "'sum'" in step.line else 1.0
    vectors = [reads[k] for k in step.reads[1:] if reads[k].dim() == 1]
    if not vectors or "_norm(" not in step.line:
        return 0.0
    channels = 1 if "batch_norm(" in step.line else result.dim() - 1
    bias = vectors[-1].detach().abs()
    return bias.view([-1 if d == channels else 1 for d in range(result.dim())])


def _has_logarithms(step: Step) -> bool:
    """Of sums that were rounded next to 1: off by such a unit, however small they are, and so is
    one less their exponential in the gradient."""
    return "log_softmax(" in step.line or "cross_entropy(" in step.line


def _slopes(step: Step, reads: Mapping[str, Any]) -> torch.Tensor:
    """Nothing, with a gradient: the slopes of the weights by which neighbours are added, which
    cancel where neighbours are equal, were rounded."""
    image, grid = (reads[k] for k in step.reads)
    moved = torch.where(grid.isfinite(), grid - grid.detach(), 0.0).sum(-1)
    largest = torch.where(image.isfinite(), image, 0.0).detach().abs().amax()
    return moved.unsqueeze(1) * largest * max(image.shape[2:])


def _of_transforms(step: Step, reads: Mapping[str, Any]) -> float:
    """The norm of what is summed up, divided as the results are."""
    largest = max(float(x.detach().abs().amax()) for x in reads.values())
    terms = max(max(x.shape) for x in reads.values())
    if "fft2(" in step.line:
        terms *= terms
    scaled = "irfft(" in step.line or "'ortho'" in step.line
    divided = ".ifft(" in step.line or "'forward'" in step.line
    return largest * terms ** (0.0 if scaled else -0.5 if divided else 0.5)


def _slope_of_sinc(x: torch.Tensor) -> torch.Tensor:
    """Nothing, with a gradient: the slope is a difference of numbers that are about 1 / x."""
    known = x.isfinite() & (x != 0)
    at = torch.where(known, x, 1.0).detach()
    return torch.where(known, x - at, 0.0) / at


def _kept_with_noise(epsilon: float, noise: torch.Generator, bias: float) -> Any:
    """What autograd saves inside has noise of its own, in units of itself and of ``bias``."""

    def pack(x: torch.Tensor) -> torch.Tensor:
        return x + _random(x, noise) * epsilon * (x.abs() + bias) if _is_float(x) else x

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x)


def _shaken(x: Any, dtype: torch.dtype, noise: torch.Generator, rounds: bool) -> Any:
    """Noise in a result, and the same in the gradient that will arrive there.

    In most runs the result is a number of the type then: what compares it with another may find
    them equal. In the others equal ones are told apart.
    """
    if not _is_float(x):
        return x
    moved = x * (1 + _noise(x, dtype, noise, rounds))
    if noise.initial_seed() % 4 == 0:
        return moved
    number = _narrow(moved.detach(), dtype)
    return moved + torch.where(number.isfinite(), number - moved.detach(), 0.0)


def _is_scattered_into_a_sum(step: Step, program: Program) -> bool:
    """Whether the gradient is a sum at some places of what the step reads.

    Of a join that names a tensor twice; and where other steps have gradients for what elements are
    read from: then they may be added one by one to what is there already.
    """
    if _JOINS.search(step.text):
        return any(len(re.findall(rf"\b{r}\b", step.text)) > 1 for r in step.reads)
    if not _GATHERS.search(step.text):
        return False
    others = [r for s in program.steps if s is not step for r in s.reads]
    return any(r in others or r in program.outputs for r in step.reads)


def _uses(name: str, program: Program) -> int:
    return sum(name in s.reads for s in program.steps) + (name in program.outputs)


def _noisy_gradient(x: Any, dtype: torch.dtype, noise: torch.Generator, rounds: bool = True) -> Any:
    """An exact result as it is; what arrives at its gradient may have been rounded."""
    if _is_float(x) and x.requires_grad:
        x.register_hook(lambda g: g * (1 + _noise(g, dtype, noise, rounds)))
    return x


def _noise(
    x: torch.Tensor, dtype: torch.dtype, noise: torch.Generator, rounds: bool
) -> torch.Tensor:
    moved = _random(x, noise) * _epsilon(dtype)
    if rounds:
        moved = torch.where(_representable(x.detach(), dtype), 0.0, moved)
    return moved


def _random(x: torch.Tensor, noise: torch.Generator) -> torch.Tensor:
    """Between 1/2 and 1, of both signs: never next to nothing."""
    size = torch.rand(x.shape, generator=noise, dtype=torch.float64) - 0.5
    return torch.where(size < 0, size - 0.5, size + 0.5)


def _is_exact(x: Any, dtype: torch.dtype) -> bool:
    """NaN shows nothing either way: its gradient is a number, and may have been rounded."""
    if not _is_float(x):
        return True
    known = ~x.isnan()
    some = 2 * int(known.sum()) >= x.numel()
    return some and bool((_representable(x.detach(), dtype) | ~known).all())


def _representable(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # In float64 everything is: what float32 can hold has digits to spare.
    return _narrow(x, torch.float32 if dtype is torch.float64 else dtype) == x


def _narrow(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype).double()


def _is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _smallest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny if dtype.is_floating_point else 0.0


def _epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
