"""Turning a template file into OpenCL C: Jinja with the holes as functions.

A template says what stands at file scope, and what its kernel is, by blocks::

    {% call definition("row_t") %} … {% endcall %}      a type, a constant or a macro
    {% call function("sum_lanes") %} … {% endcall %}
    {% call kernel(LX, LY, 1, together=true) %} … {% endcall %}

``kernel``: the size of a work-group, and whether its work-items share something; where they do not,
their numbers are ``item0``, ``item1``…
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from ocl_inductor.ir.index import is_static
from ocl_inductor.plan.kernel_code import Definition
from ocl_inductor.templates.spec import P, TemplateSpec

Hole = Callable[..., str] | str

#: A block in rendered text: its kind, its name or size, its lines.
_BLOCK = re.compile(r"\x01(\w+) ([^\n]*)\n(.*?)\x02\n?", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RenderedKernel:
    """What a template has become; names as in :class:`ocl_inductor.plan.kernel_code.KernelCode`.

    ``together``: whether the work-items of a group share something.
    """

    definitions: tuple[Definition, ...]
    group: str
    body: str
    comment: str
    together: bool


def _block(kind: str, name: str, caller: Callable[[], str]) -> str:
    return f"\x01{kind} {name}\n{caller()}\x02\n"


def _kernel(x: int, y: int, z: int, caller: Callable[[], str], together: bool = False) -> str:
    return _block("together" if together else "kernel", f"{x}, {y}, {z}", caller)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.tests["static"] = is_static
    environment.globals |= {
        "definition": lambda name, caller: _block("definition", name, caller),
        "function": lambda name, caller: _block("function", name, caller),
        "kernel": _kernel,
    }
    return environment


def render_file(name: str) -> RenderedKernel:
    """The kernel in a template file that has no parameters."""
    return _parts(_environment().get_template(name).render())


def render(
    spec: TemplateSpec[P],
    params: P,
    tile: Mapping[str, object],
    holes: Mapping[str, Hole],
) -> RenderedKernel:
    """The kernel of a template.

    ``holes`` gives ``size``, ``load``, ``pointer``, ``store``, ``touch`` and ``result`` (see
    :class:`TemplateSpec`). A name that the template uses and none of these supplies raises
    ``jinja2.UndefinedError``.

    Raises:
        ValueError: the template has something at file scope outside of its blocks.
    """
    names = {"p": params, "acc": params.acc, "stores_halves": False, **tile, **holes}
    return _parts(_environment().get_template(spec.file).render(**names))


def _parts(text: str) -> RenderedKernel:
    definitions: list[Definition] = []
    kernels: list[tuple[str, str, str]] = []
    for kind, name, lines in _BLOCK.findall(text):
        if kind == "definition":
            definitions.append(Definition(name, lines.strip("\n")))
        elif kind == "function":
            definitions.append(Definition(name, lines.strip("\n") + "\n", True))
        else:
            kernels.append((kind, name, lines.rstrip("\n")))
    rest = _BLOCK.sub("", text)
    if _COMMENT.sub("", rest).strip() or len(kernels) != 1:
        raise ValueError(f"{len(kernels)} kernels, and {_COMMENT.sub('', rest).strip()[:200]!r}")
    ((kind, group, body),) = kernels
    comment = "\n".join(line for line in rest.splitlines() if line.strip())
    return RenderedKernel(tuple(definitions), group, body, comment, kind == "together")
