"""Several kernels in one program.

A driver takes half a MiB for a program and 10 ms to load it, however small it is: 40 kernels of a
few lines took 18.9 MiB as 40 programs on Intel's CPU driver and 2.0 as one, and compiling the 18 of
a vision transformer took a quarter less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ocl_inductor.kernel_text.file_scope import KernelText, definitions, is_function
from ocl_inductor.kernel_text.renaming import all_renamed


class ProgramText:
    """Definitions of several sources; a name that means something else already gets a number."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[str, str] = {}

    def take(self, source: str, *, share_functions: bool) -> KernelText:
        """Write what a source defines before its kernel; the kernel, with the names used here.

        Raises:
            ValueError: the source has not one kernel, or cannot be taken apart.
        """
        changed: dict[str, str] = {}
        kernels = []
        for found in definitions(source):
            if isinstance(found, KernelText):
                kernels.append(found)
                continue
            shared = share_functions or not is_function(found)
            name = self.write(found.name or found.text, found.text, shared=shared, changed=changed)
            if found.name and name != found.name:
                changed[found.name] = name
        if len(kernels) != 1:
            raise ValueError(f"{len(kernels)} kernels in a source")
        (kernel,) = kernels
        return replace(
            kernel,
            parameters=all_renamed(kernel.parameters, changed),
            body=all_renamed(kernel.body, changed),
            text=all_renamed(kernel.text, changed),
        )

    def write(
        self, name: str, text: str, *, shared: bool = True, changed: Mapping[str, str] | None = None
    ) -> str:
        """Write what defines ``name``; its name in this program.

        ``shared``: what is there already in the same words is not written again; ``changed``: names
        that ``text`` uses and those that they have here.
        """
        fresh, number = name, 0
        own = all_renamed(text, changed or {})
        while fresh in self.known and not (shared and self.known[fresh] == own):
            number += 1
            fresh = f"{name}_{number}"
            own = all_renamed(text, {**(changed or {}), name: fresh})
        if fresh not in self.known:
            self.known[fresh] = own
            self.lines.append(own)
        return fresh


def one_program(sources: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The text of a program with the kernels of all ``sources``, and their names there.

    Functions are not shared: compilers inline a function with a single caller whatever its size, so
    a kernel's code does not depend on what it is compiled with.

    Raises:
        ValueError: a source has not one kernel, or cannot be taken apart.
    """
    program, names = ProgramText(), []
    for source in sources:
        kernel = program.take(source, share_functions=False)
        names.append(program.write(kernel.name, kernel.text, shared=False))
    return "\n\n".join(program.lines) + "\n", tuple(names)


def directives(source: str) -> tuple[str, ...]:
    """The pragmas at file scope: sources of one program have to have the same."""
    lines = map(str.strip, source.splitlines())
    return tuple(line for line in lines if line.startswith("#pragma OPENCL"))
