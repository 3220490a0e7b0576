"""Template groups as kernels: the template's source with this group's operands and epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import sympy

from ocl_inductor.codegen.arguments import KernelParameters, index_type
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.prelude import prelude
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.printers.primitives import emit_load, prefetch
from ocl_inductor.codegen.statements.emitted import HeldResult, Scope, Text
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.statements.index_checks import Outside
from ocl_inductor.codegen.statements.indexing import Literals, index_text
from ocl_inductor.codegen.statements.stores import unrounded
from ocl_inductor.codegen.tree.printer import printed
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import HALF_TYPES
from ocl_inductor.ir.expr import Check, indices, walk
from ocl_inductor.ir.index import (
    Size,
    coefficients,
    contiguous_strides,
    is_static,
    linear,
    loop_vars,
    prod,
    size_symbols,
)
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.ir.ops import EXPENSIVE
from ocl_inductor.ir.params import TemplateParams, leaves
from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter, work_group
from ocl_inductor.plan.plan import FAULT
from ocl_inductor.schedule.groups import TemplateGroup
from ocl_inductor.templates.registry import SPECS
from ocl_inductor.templates.render import RenderedKernel, render
from ocl_inductor.templates.spec import Profile


def template_code(
    name: str,
    rendered: RenderedKernel,
    parameters: Sequence[KernelParameter],
    dimensions: int,
    device: DeviceInfo,
) -> KernelCode:
    """A rendered template with its parameters, and what it uses of the library.

    ``dimensions``: of its launch.
    """
    own = rendered.definitions
    text = "\n".join([*(d.text for d in own), rendered.body])
    return KernelCode(
        name,
        (*prelude(device, text), *own),
        (work_group(rendered.group),),
        tuple(parameters),
        rendered.body,
        0 if rendered.together else dimensions,
        rendered.comment,
    )


def emit_template_group(
    group: TemplateGroup, buffers: Mapping[str, Buffer], device: DeviceInfo, name: str
) -> KernelSource:
    """Render the template with its epilogue spliced into the ``store`` hole."""
    node = group.template
    spec = SPECS[node.spec]
    params = node.params
    tile = spec.tile(device, cast(Profile, device.profile), params)
    if any(n.op in EXPENSIVE for m in group.epilogue for n in walk(m.body)):
        # A call for each register of a tile is long code that spills registers: a loop instead.
        tile["max_unrolled_store"] = 0
    tile["stores_halves"] = any(buffers[b].dtype in HALF_TYPES for b in group.stored)
    launch = spec.launch(params, tile)
    parameters = _parameters(group, buffers, params)
    members = {m.buffer.name: m for m in group.epilogue}
    storages = [buffers[b].storage for b in parameters.buffers if b != FAULT]
    kind = index_type(storages, [prod(group.space)])
    variables = loop_vars(len(group.space))
    numbers = iter(range(1 << 30))
    literals, pointers = Literals(), parameters.pointers()

    def size(x: Size) -> str:
        text = index_text(sympy.sympify(x), {}, literals)
        return text if is_static(x) else f"({text})"

    def pointer(operand: int) -> str:
        return pointers[node.operands[operand]]

    def load(operand: int, index: str, width: int = 1, aligned: bool = False) -> str:
        source = node.operands[operand]
        target = EmitTarget(width, device)
        dtype = buffers[source].dtype
        return emit_load(target, dtype, pointers[source], index, aligned=aligned)

    def store(coordinates: Sequence[str], value: str, width: int = 1) -> str:
        writer = Emitter(
            device,
            members,
            width=width,
            vector_var=variables[-1],
            index_type=kind,
            temporaries=numbers,
            literals=literals,
            pointers=pointers,
            outside=Outside(literals),
        )
        writer.scopes.append(Scope(frozenset(variables)))
        for v, coordinate in zip(variables, coordinates, strict=True):
            writer.names[v] = writer.fresh("c")
            writer.let(kind, writer.names[v], coordinate)
        result = node.buffer
        writer.results[result.name] = HeldResult(Text(value, width > 1), result.dtype)
        if result.name in group.stored:
            at = linear(variables, contiguous_strides(group.space))
            writer.store(result.name, result.dtype, at, Text(value, width > 1))
        for m in group.epilogue:
            if m.buffer.name in group.stored:
                stored = writer.emit(unrounded(m.body))
                writer.store(m.buffer.name, m.buffer.dtype, m.store, stored)
        outside, statements = writer.outside, writer.scopes[0].statements
        assert outside is not None
        tree = [*outside.declarations(), *statements, *outside.reports()]
        return "\n".join(printed(tree, pointers))

    checks = Outside(literals)

    def checked_index(index: str, extent: str, check: Check) -> str:
        return checks.checked_row(check, index, extent)

    far = _accesses_by_row(group, variables)

    def touch(coordinates: Sequence[str]) -> str:
        names = dict(zip(variables, (f"({c})" for c in coordinates), strict=True))
        return "\n".join(
            prefetch(pointers[buffer], index_text(index, names, literals), write) + ";"
            for buffer, index, write in far
        )

    rendered = render(
        spec,
        params,
        tile,
        {
            "size": size,
            "pointer": pointer,
            "load": load,
            "store": store,
            "touch": touch,
            "result": pointers.get(node.buffer.name, ""),
            "checked_index": checked_index,
            "begin_checks": lambda: "\n".join(printed(checks.declarations())),
            "end_checks": lambda: "\n".join(printed(checks.reports())),
        },
    )
    # The body is complete, so all literals have been named.
    parameters = parameters.with_literals(literals)
    return KernelSource(
        template_code(name, rendered, parameters.declared(), len(launch.global_size), device),
        parameters.buffers,
        tuple(e for _, e in parameters.scalars),
        tuple(n for _, n in parameters.literals),
        launch.global_size,
        launch.local_size,
        group.origin,
        parameters.dtypes,
    )


def _accesses_by_row(
    group: TemplateGroup, variables: Sequence[sympy.Symbol]
) -> list[tuple[str, sympy.Expr, bool]]:
    """Accesses of ``store`` that are contiguous along the columns and strided between rows.

    (buffer, element, written): the memory worth prefetching before a tile's results are computed.
    """
    *rows, column = variables
    result = group.template.buffer.name
    found: list[tuple[str, sympy.Expr, bool]] = []
    if result in group.stored:
        found.append((result, linear(variables, contiguous_strides(group.space)), True))
    computed = {result, *(m.buffer.name for m in group.epilogue)}
    for m in group.epilogue:
        for node in walk(m.body):
            if node.op == "load" and not node.args and node.payload.buffer not in computed:
                found.append((node.payload.buffer, node.payload.index, False))
        if m.buffer.name in group.stored:
            found.append((m.buffer.name, m.store, True))

    def in_runs(index: sympy.Expr) -> bool:
        affine = coefficients(index, [column])
        runs = affine is not None and affine[0].get(column) == 1
        return runs and bool(index.free_symbols & set(rows))

    return list(dict.fromkeys(f for f in found if in_runs(f[1])))


def _parameters(
    group: TemplateGroup, buffers: Mapping[str, Buffer], params: TemplateParams
) -> KernelParameters:
    order = list(dict.fromkeys(group.template.operands))
    bases = {m.base for m in group.epilogue if m.base}
    order += sorted(group.reads() - set(order) - bases)
    order += sorted(group.stored)
    expressions: list[object] = list(group.space)
    values = params.values()
    for value in values:
        expressions += leaves(value)
    for m in group.epilogue:
        expressions += [m.store, *indices(m.body)]
    parameters = KernelParameters(
        tuple(order),
        tuple(buffers[n].dtype for n in order),
        group.stored,
        tuple((s.name, s) for s in size_symbols(expressions)),
    )
    checks = any(isinstance(p, Check) for p in values)
    checks = checks or any(m.checks_indices for m in group.epilogue)
    return parameters.with_fault() if checks else parameters
