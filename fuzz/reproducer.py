"""A program as a file that needs nothing but torch, and that a test runs again."""

from __future__ import annotations

import inspect
from pathlib import Path

from fuzz import values
from fuzz.program import Input, Program
from fuzz.run import weight

_FILE = '''"""Found by `make fuzz` ({where}):

{title}
"""

import sys

import torch
from torch.nn import functional as F

DYNAMIC, BACKWARD = {dynamic}, {backward}
DEVICE, PROFILE = {device!r}, {profile!r}


{program}

def inputs({letters}):
{inputs}
    return [{names}]


CALLS = {calls}


{numbers}

{strides}

def filled(seed, kind, shape, layout, dtype):
    stride, offset, count = strides(shape, layout)
    return numbers(seed, kind, count, dtype).as_strided(shape, stride, offset)


{weight}

def results(function, sizes):
    """Outputs, inputs afterwards, and gradients of a weighted sum of both."""
    arguments = inputs(*sizes)
    outputs = list(function(*arguments))
    found = [x.detach() if isinstance(x, torch.Tensor) else x for x in outputs + arguments]
    if BACKWARD:
        wanted = [x for x in arguments if x.requires_grad and x.is_leaf]
        tensors = [x for x in outputs if isinstance(x, torch.Tensor)]
        written = [x for x in arguments if not x.is_leaf]
        outs = [x for x in tensors + written if x.requires_grad]
        weights = [weight(x, k) for k, x in enumerate(outs)]
        found += torch.autograd.grad(outs, wanted, weights, allow_unused=True)
    return found


def compiled(**options):
    torch.compiler.reset()
    return torch.compile(program, backend="opencl", dynamic=DYNAMIC, options=options)


if __name__ == "__main__":
    device, profile = sys.argv[1:] or (DEVICE, PROFILE)
    ours = compiled(device=device, profile=profile)
    for sizes in CALLS:
        pairs = zip(results(ours, sizes), results(program, sizes), strict=True)
        for k, (actual, expected) in enumerate(pairs):
            torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=True)
            print("result", k, "agrees")
'''


def source(program: Program, title: str, where: str, device: str, profile: str) -> str:
    """``where``: seed, program, device, profile."""
    letters = sorted({d for i in program.inputs for d in i.dims if isinstance(d, str)})
    calls = [tuple(sizes[x] for x in letters) for sizes in program.sizes]
    return _FILE.format(
        title=title.replace("\\", "/").replace('"', "'")[:200],
        where=where,
        dynamic=program.dynamic,
        backward=program.backward,
        program=program.source(),
        letters=", ".join(letters),
        inputs="\n".join(f"    {i.name} = {_input(i)}" for i in program.inputs),
        names=", ".join(i.name for i in program.inputs),
        calls=repr(calls),
        numbers=_plain(values.numbers),
        strides=_plain(values.strides),
        weight=_plain(weight),
        device=device,
        profile=profile,
    )


def _input(i: Input) -> str:
    if i.alias:
        return i.alias
    dims = ", ".join(map(str, i.dims)) + ("," if len(i.dims) == 1 else "")
    text = f"filled({i.seed}, {i.kind!r}, ({dims}), {i.layout!r}, torch.{i.dtype})"
    return text + (".requires_grad_()" if i.grad else "")


def _plain(function: object) -> str:
    return inspect.getsource(function)  # type: ignore[arg-type]


def save(text: str, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path
