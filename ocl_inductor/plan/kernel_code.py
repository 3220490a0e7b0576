"""A kernel in its parts: what compiler and runtime need to put several into one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """What a source has at file scope: a type, function, constant or macro with its ``name``; a
    pragma has none."""

    name: str
    text: str
    is_function: bool = False


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """``kind``: all before the name, its last space or star included."""

    kind: str
    name: str

    @property
    def text(self) -> str:
        return self.kind + self.name

    def shared(self) -> KernelParameter:
        """The same of a pointer into memory that another pointer may have too."""
        return dataclasses.replace(self, kind=self.kind.replace("restrict ", ""))


@dataclass(frozen=True, slots=True)
class KernelCode:
    """One kernel and what it needs at file scope.

    Attributes:
        attributes: what stands in its ``__attribute__((…))``, the size of its work-groups first.
        body: lines of C, indented. Where work-items are independent, their numbers are
            ``item0``, ``item1``… in it, which :attr:`text` declares.
        items: dimensions of these numbers; 0: work-items of a group share something.
        comment: lines before it.
    """

    name: str
    definitions: tuple[Definition, ...]
    attributes: tuple[str, ...]
    parameters: tuple[KernelParameter, ...]
    body: str
    items: int = 0
    comment: str = ""

    @property
    def kernel(self) -> str:
        """The text of the kernel alone."""
        head = f"{self.comment}\n" if self.comment else ""
        attributes = f" __attribute__(({', '.join(self.attributes)}))" if self.attributes else ""
        parameters = ", ".join(p.text for p in self.parameters)
        numbers = "".join(
            f"    const size_t {item(n)} = {global_id(n)};\n" for n in self.dimensions
        )
        return (
            f"{head}__kernel{attributes}\nvoid {self.name}({parameters})\n"
            f"{{\n{numbers}{self.body}\n}}\n"
        )

    @property
    def text(self) -> str:
        """All of the source."""
        before = "".join(f"{d.text}\n" for d in self.definitions)
        return before.rstrip("\n") + "\n\n" + self.kernel if before else self.kernel

    @property
    def pragmas(self) -> tuple[str, ...]:
        return tuple(d.text for d in self.definitions if not d.name)

    @property
    def dimensions(self) -> range:
        return range(self.items)

    def function(self, name: str, head: str = "static void") -> Definition:
        """The kernel's code as a function of its work-item's numbers and its arguments."""
        numbers = [f"const size_t {item(n)}" for n in self.dimensions]
        parameters = ", ".join([*numbers, *(p.text for p in self.parameters)])
        return Definition(name, f"{head} {name}({parameters})\n{{\n{self.body}\n}}\n", True)


def work_group(sizes: str) -> str:
    """The attribute of a kernel for work-groups of these three sizes."""
    return f"reqd_work_group_size({sizes})"


def item(dimension: int) -> str:
    """What a body calls ``get_global_id(dimension)``."""
    return f"item{dimension}"


def global_id(dimension: int) -> str:
    return f"get_global_id({dimension})"
