"""A failing program made as small as it can be while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch.nn import functional as F

from fuzz.program import Input, Program, names_in

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, attempts: int = 120) -> Program:
    """``fails`` is asked at most ``attempts`` times."""
    tried: set[str] = set()
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(program):
            if (key := repr(smaller)) in tried:
                continue
            tried.add(key)
            if len(tried) > attempts:
                return program
            if fails(smaller):
                program, progress = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with less in them, the largest leaps first."""
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield _without_dead(replace(program, outputs=(name,)))
        for k in range(len(program.outputs)):
            rest = program.outputs[:k] + program.outputs[k + 1 :]
            yield _without_dead(replace(program, outputs=rest))
    if program.dynamic:
        yield replace(program, dynamic=False, sizes=program.sizes[:1])
        yield replace(program, sizes=program.sizes[:1])
    if program.backward:
        inputs = tuple(replace(i, grad=False) for i in program.inputs)
        yield replace(program, backward=False, inputs=inputs)
    for k in reversed(range(len(program.steps))):
        if not program.steps[k].targets:
            yield _without_dead(replace(program, steps=_without(program.steps, k)))
    for k in reversed(range(len(program.steps))):
        yield from _earlier(program, k)
    for k in reversed(range(len(program.steps))):
        if (cut := _cut(program, k)) is not None:
            yield cut
    for k, i in enumerate(program.inputs):
        changes: list[dict[str, object]] = []
        if i.layout != "dense":
            changes.append({"layout": "dense"})
        if i.kind not in ("lattice", "normal"):
            changes.append({"kind": "lattice"})
        if i.grad:
            changes.append({"grad": False})
        if i.dtype in ("float16", "bfloat16", "float64"):
            changes.append({"dtype": "float32"})
        for change in changes:
            smaller = replace(i, **change)  # type: ignore[arg-type]
            yield replace(program, inputs=_with(program.inputs, k, smaller))
    yield from _smaller_sizes(program)


def _smaller_sizes(program: Program) -> Iterator[Program]:
    """One size everywhere, or in one input, made smaller."""
    present = {d for i in program.inputs for d in i.dims if isinstance(d, int) and d > 1}
    for size in sorted(present, reverse=True):
        for new in sorted({1, 2, size // 2, size - 1} - {0, size}):
            inputs = tuple(
                replace(i, dims=tuple(new if d == size else d for d in i.dims))
                for i in program.inputs
            )
            yield replace(program, inputs=inputs)


def _earlier(program: Program, k: int) -> Iterator[Program]:
    """What an output's step reads, in its place."""
    step = program.steps[k]
    if not set(step.targets) & set(program.outputs):
        return
    made = {t for s in program.steps[:k] for t in s.targets}
    outputs = [n for n in program.outputs if n not in step.targets]
    outputs += [n for n in step.reads if n in made and n not in outputs]
    if outputs:
        yield _without_dead(replace(program, outputs=tuple(outputs)))


def _cut(program: Program, k: int) -> Program | None:
    """What step ``k`` computes becomes inputs of the same form."""
    step = program.steps[k]
    if not step.targets or len(program.sizes) > 1:
        return None
    env = {"torch": torch, "F": F, **program.make_inputs(program.sizes[0])}
    try:
        for earlier in program.steps[: k + 1]:
            exec(earlier.line, env)
    except Exception:
        return None
    made = []
    names = dict.fromkeys(n for s in program.steps[k + 1 :] for n in names_in(s.text))
    number = 1 + max(int(i.name[1:]) for i in program.inputs)
    renamed: dict[str, str] = {}
    for target in step.targets:
        value = env[target]
        if target not in names and target not in program.outputs:
            continue
        if not isinstance(value, torch.Tensor):
            return None
        grad = program.backward and value.is_floating_point()
        dtype = str(value.dtype)[6:]
        made.append(Input(f"i{number}", tuple(value.shape), dtype, "lattice", grad=grad))
        renamed[target] = f"i{number}"
        number += 1
    steps = tuple(replace(s, text=_rename(s.text, renamed)) for s in _without(program.steps, k))
    outputs = tuple(renamed.get(n, n) for n in program.outputs)
    if set(outputs) <= {i.name for i in made}:
        return None
    inputs = (*program.inputs, *made)
    return _without_dead(replace(program, inputs=inputs, steps=steps, outputs=outputs))


def _rename(text: str, names: dict[str, str]) -> str:
    import re

    return re.sub(r"\b[it]\d+\b", lambda m: names.get(m.group(), m.group()), text)


def _without_dead(program: Program) -> Program:
    """Without steps and inputs that nothing needs. Steps that write stay."""
    needed = set(program.outputs)
    steps = []
    for step in reversed(program.steps):
        if not step.targets or needed & set(step.targets):
            steps.append(step)
            needed |= set(step.reads)
    inputs = []
    for i in reversed(program.inputs):
        if i.name in needed:
            inputs.append(i)
            needed |= names_in(i.alias)
    return replace(program, steps=tuple(steps[::-1]), inputs=tuple(inputs[::-1]))


def _without(steps: tuple, k: int) -> tuple:  # type: ignore[type-arg]
    return steps[:k] + steps[k + 1 :]


def _with(inputs: tuple[Input, ...], k: int, new: Input) -> tuple[Input, ...]:
    return (*inputs[:k], new, *inputs[k + 1 :])
