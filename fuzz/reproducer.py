"""A program as a file, for ``fuzz.again`` and for a test that runs it again."""

from __future__ import annotations

from pathlib import Path

from fuzz.check import Target
from fuzz.program import Input, Program

_FILE = '''"""Found by `make fuzz` ({where}):

{title}
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = {dynamic}, {backward}
DEVICE, PROFILE, MEMORY = {device!r}, {profile!r}, {memory!r}
MODE = {mode!r}


{program}

def inputs({letters}):
{inputs}
    return [{names}]


CALLS = {calls}

'''


def source(program: Program, title: str, where: str, target: Target) -> str:
    """``where``: seed, program and target."""
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
        device=target.device,
        profile=target.profile,
        memory=target.memory,
        mode=target.mode,
    )


def _input(i: Input) -> str:
    if i.alias:
        return i.alias
    dims = ", ".join(map(str, i.dims)) + ("," if len(i.dims) == 1 else "")
    text = f"filled({i.seed}, {i.kind!r}, ({dims}), {i.layout!r}, torch.{i.dtype})"
    return text + (".requires_grad_()" if i.grad else "")


def save(text: str, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path
