"""Many small launches of one form as one launch.

Launches whose sources are equal but for the names of buffers become parts of one kernel: a
work-item selects its part by its work-group's index, takes that part's pointers and sizes, and
calls the shared body. Which launches may run concurrently is decided before (memory/batches.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import is_static
from ocl_inductor.ir.nodes import merged
from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter

#: Fewer launches of a form do not justify a separate program.
MIN_PARTS = 4
#: A work-item makes one comparison for each part to find its own.
MAX_PARTS = 64


def combinable(source: KernelSource) -> bool:
    """Whether a kernel can be part of a combo kernel: one static dimension, no local memory."""
    return (
        bool(source.tree)
        and source.code.items == 1
        and not source.scalars
        and source.local_size is not None
        and len(source.local_size) == len(source.global_size) == 1
        and is_static(source.global_size[0])
    )


def most_parts(source: KernelSource, device: DeviceInfo) -> int:
    """How many parts like ``source`` fit into the size limit of one kernel's parameters."""
    each = 8 * len(source.buffers) + 4 * (len(source.literals) + 1)
    return max(min(device.max_parameter_bytes // each, MAX_PARTS), 1)


def even_pieces(items: Sequence[int], most: int) -> list[Sequence[int]]:
    """As few runs of at most ``most`` as possible, about equally long."""
    each = -(-len(items) // -(-len(items) // most))
    return [items[k : k + each] for k in range(0, len(items), each)]


def combine(sources: Sequence[KernelSource], parts: int) -> KernelSource:
    """One kernel for all of ``sources``, whose texts are equal but for the names of buffers.

    ``parts``: the kernel's capacity; unused parts are never reached. So launches of different
    numbers of parts share a program.
    """
    first = sources[0]
    code, local = first.code, first.local_size
    assert local is not None
    buffers = len(first.buffers)
    chosen: list[KernelParameter] = []
    ends: list[int] = []
    total = 0
    padded = [*sources, *[first] * (parts - len(sources))]
    for k, source in enumerate(padded):
        chosen += [_of_part(p.shared(), k) for p in source.code.parameters[:buffers]]
        if k < len(sources):
            total += int(source.global_size[0]) // local[0]
        ends.append(total)
    for k in range(parts):
        chosen += [_of_part(p, k) for p in code.parameters[buffers:]]
        chosen.append(KernelParameter("const int ", f"end{k}"))
    body = "\n".join(f"    {line}" for line in _choice(code, parts, local[0]))
    combo = KernelCode(
        f"{code.name}_times_{parts}",
        (*code.definitions, code.function("one_part", "static inline void")),
        code.attributes,
        tuple(chosen),
        body,
    )
    literals = [n for k, s in enumerate(padded) for n in (*s.literals, ends[k])]
    return KernelSource(
        combo,
        tuple(b for s in padded for b in s.buffers),
        (),
        tuple(literals),
        (total * local[0],),
        local,
        merged(s.origin for s in sources),
        tuple(t for s in padded for t in s.dtypes),
    )


def _of_part(p: KernelParameter, part: int) -> KernelParameter:
    return KernelParameter(p.kind, f"part{part}_{p.name}")


def _choice(code: KernelCode, parts: int, items: int) -> Iterator[str]:
    """A work-item of a group of ``items`` finds its part, and does what is to be done there."""
    names = [p.name for p in code.parameters]
    yield "const int group = get_group_id(0);"
    for p in code.parameters:
        kind = p.shared().kind
        plain = kind if "*" in kind else kind.replace("const ", "")
        yield f"{plain}chosen_{p.name} = part0_{p.name};"
    yield "int begin = 0;"
    for k in range(1, parts):
        taken = " ".join(f"chosen_{n} = part{k}_{n};" for n in names)
        yield f"if (group >= end{k - 1}) {{ {taken} begin = end{k - 1}; }}"
    number = "group - begin" if items == 1 else f"(group - begin) * {items} + get_local_id(0)"
    yield f"one_part({', '.join([number, *(f'chosen_{n}' for n in names)])});"
