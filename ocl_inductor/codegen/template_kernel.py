"""Template groups as kernels: the template's source with this group's operands and epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import sympy

from ocl_inductor.codegen.arguments import Parameters, index_type
from ocl_inductor.codegen.emitter import Emitter, Result, Scope, Text
from ocl_inductor.codegen.indexing import Literals, index_text
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.primitives import Target, emit_load, prelude
from ocl_inductor.device import DeviceInfo
from ocl_inductor.ir.expr import indices
from ocl_inductor.ir.index import (
    Size,
    contiguous_strides,
    is_static,
    linear,
    loop_vars,
    prod,
    size_symbols,
)
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.schedule.groups import TemplateGroup
from ocl_inductor.templates.registry import SPECS
from ocl_inductor.templates.render import render
from ocl_inductor.templates.spec import Profile

_ARGUMENTS = "/* arguments */"


def emit_template_group(
    group: TemplateGroup, buffers: Mapping[str, Buffer], device: DeviceInfo, name: str
) -> KernelSource:
    """Render the template with its epilogue spliced into the ``store`` hole."""
    node = group.template
    spec = SPECS[node.spec]
    params = dict(node.params)
    tile = spec.tile(device, cast(Profile, device.profile), params)
    launch = spec.launch(params, tile)
    parameters = _parameters(group, buffers, params)
    members = {m.buffer.name: m for m in group.epilogue}
    storages = [buffers[b].storage for b in parameters.buffers]
    kind = index_type(storages, [prod(group.space)])
    variables = loop_vars(len(group.space))
    numbers = iter(range(1 << 30))
    literals = Literals()

    def size(x: Size) -> str:
        text = index_text(sympy.sympify(x), {}, literals)
        return text if is_static(x) else f"({text})"

    def pointer(operand: int) -> str:
        return node.operands[operand]

    def load(operand: int, index: str, width: int = 1) -> str:
        source = node.operands[operand]
        return emit_load(Target(width, device), buffers[source].dtype, source, index)

    def store(coordinates: Sequence[str], value: str, width: int = 1) -> str:
        writer = Emitter(
            device,
            members,
            width=width,
            vector_var=variables[-1],
            index_type=kind,
            temporaries=numbers,
            literals=literals,
        )
        writer.scopes.append(Scope(frozenset(variables)))
        for v, coordinate in zip(variables, coordinates, strict=True):
            writer.names[v] = writer.fresh("c")
            writer.line(f"const {kind} {writer.names[v]} = {coordinate};")
        result = node.buffer
        writer.results[result.name] = Result(Text(value, width > 1), result.dtype)
        if result.name in group.stored:
            at = linear(variables, contiguous_strides(group.space))
            writer.store(result.name, result.dtype, at, Text(value, width > 1))
        for m in group.epilogue:
            if m.buffer.name in group.stored:
                writer.store(m.buffer.name, m.buffer.dtype, m.store, writer.emit(m.body))
        return "\n".join(writer.scopes[0].lines)

    text = render(
        spec,
        name,
        _ARGUMENTS,
        params,
        tile,
        {"size": size, "pointer": pointer, "load": load, "store": store},
    )
    # The body is complete, so every literal has its name.
    parameters = parameters.with_literals(literals.names)
    text = text.replace(_ARGUMENTS, parameters.text())
    return KernelSource(
        name,
        prelude(Target(1, device), text) + "\n" + text,
        parameters.buffers,
        tuple(e for _, e in parameters.scalars),
        tuple(n for _, n in parameters.literals),
        launch.global_size,
        launch.local_size,
        group.origin,
        parameters.dtypes,
    )


def _parameters(
    group: TemplateGroup, buffers: Mapping[str, Buffer], params: Mapping[str, object]
) -> Parameters:
    order = list(dict.fromkeys(group.template.operands))
    bases = {m.base for m in group.epilogue if m.base}
    order += sorted(group.reads() - set(order) - bases)
    order += sorted(group.stored)
    expressions: list[object] = list(group.space)
    for value in params.values():
        expressions += _flatten(value)
    for m in group.epilogue:
        expressions += [m.store, *indices(m.body)]
    return Parameters(
        tuple(order),
        tuple(buffers[n].dtype for n in order),
        group.stored,
        tuple((s.name, s) for s in size_symbols(expressions)),
    )


def _flatten(value: object) -> list[object]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _flatten(item)]
    return [value]
