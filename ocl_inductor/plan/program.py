"""Several kernels in one program.

A driver takes half a MiB for a program and 10 ms to load it, however small it is: 40 kernels of a
few lines took 18.9 MiB as 40 programs on Intel's CPU driver and 2.0 as one, and compiling the 18 of
a vision transformer took a quarter less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ocl_inductor.plan.kernel_code import Definition, KernelCode
from ocl_inductor.plan.renaming import all_renamed


class ProgramText:
    """Definitions of several sources; a name that means something else already gets a number."""

    def __init__(self) -> None:
        self.definitions: list[Definition] = []
        self.known: dict[str, str] = {}

    def take(self, code: KernelCode, *, share_functions: bool) -> KernelCode:
        """Write what a kernel needs before it; the kernel, with the names used here."""
        changed: dict[str, str] = {}
        for d in code.definitions:
            shared = share_functions or not d.is_function
            name = self.write(d, shared=shared, changed=changed)
            if d.name and name != d.name:
                changed[d.name] = name
        parameters = tuple(replace(p, kind=all_renamed(p.kind, changed)) for p in code.parameters)
        body = all_renamed(code.body, changed)
        return replace(code, definitions=(), parameters=parameters, body=body)

    def write(
        self,
        definition: Definition,
        *,
        shared: bool = True,
        changed: Mapping[str, str] | None = None,
    ) -> str:
        """Write a definition; its name in this program.

        ``shared``: what is there already in the same words is not written again; ``changed``: names
        that it uses and those that they have here.
        """
        name = definition.name or definition.text
        fresh, number = name, 0
        own = all_renamed(definition.text, changed or {})
        while fresh in self.known and not (shared and self.known[fresh] == own):
            number += 1
            fresh = f"{name}_{number}"
            own = all_renamed(definition.text, {**(changed or {}), name: fresh})
        if fresh not in self.known:
            self.known[fresh] = own
            kept = fresh if definition.name else ""
            self.definitions.append(Definition(kept, own, definition.is_function))
        return fresh


def one_program(kernels: Sequence[KernelCode]) -> tuple[str, tuple[str, ...]]:
    """The text of a program with all ``kernels``, and their names there.

    Functions are not shared: compilers inline a function with a single caller whatever its size, so
    a kernel's code does not depend on what it is compiled with.
    """
    program, names = ProgramText(), []
    for code in kernels:
        own = program.take(code, share_functions=False)
        names.append(program.write(Definition(own.name, own.kernel, True), shared=False))
    return "\n".join(d.text for d in program.definitions) + "\n", tuple(names)
