"""Turning a template file into OpenCL C: Jinja with the holes as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import jinja2

from ocl_inductor.ir.index import is_static
from ocl_inductor.templates.spec import P, TemplateSpec

Hole = Callable[..., str] | str


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
    return environment


def render_file(name: str) -> str:
    """The source in a template file that has no parameters."""
    return _environment().get_template(name).render()


def render(
    spec: TemplateSpec[P],
    kernel_name: str,
    arguments_text: str,
    params: P,
    tile: Mapping[str, object],
    holes: Mapping[str, Hole],
) -> str:
    """The source of one kernel.

    ``holes`` gives ``size``, ``load``, ``pointer``, ``store``, ``touch`` and ``result`` (see
    :class:`TemplateSpec`). A name that the template uses and none of these supplies raises
    ``jinja2.UndefinedError``.
    """
    names = {"p": params, "acc": params.acc, "stores_halves": False, **tile, **holes}
    template = _environment().get_template(spec.file)
    return template.render(kernel=kernel_name, arguments=arguments_text, **names)
