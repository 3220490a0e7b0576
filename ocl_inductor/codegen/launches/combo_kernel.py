"""Many small launches of one form as one launch.

Launches whose sources are equal but for the names of buffers become parts of one kernel: a
work-item selects its part by its work-group's index, takes that part's pointers and sizes, and
calls the shared body. Which launches may run concurrently is decided before (memory/batches.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import is_static
from ocl_inductor.ir.nodes import merged

#: Fewer launches of a form do not justify a separate program.
MIN_PARTS = 4
#: A work-item makes one comparison for each part to find its own.
MAX_PARTS = 64


def combinable(source: KernelSource) -> bool:
    """Whether a kernel can be part of a combo kernel: one static dimension, no local memory."""
    return (
        source.frame is not None
        and not source.scalars
        and source.local_size is not None
        and len(source.local_size) == len(source.global_size) == 1
        and is_static(source.global_size[0])
        and "__local" not in source.frame.body
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
    frame, local = first.frame, first.local_size
    assert frame is not None and local is not None
    names = [d.split()[-1].lstrip("*") for d in frame.declarations]
    parameters: list[str] = []
    choices: list[str] = []
    ends: list[int] = []
    total = 0
    padded = [*sources, *[first] * (parts - len(sources))]
    for k, source in enumerate(padded):
        parameters += [
            d.replace("restrict ", "")[: -len(name)] + f"part{k}_{name}"
            for d, name in zip(frame.declarations[: len(source.buffers)], names, strict=False)
        ]
        if k < len(sources):
            total += int(source.global_size[0]) // local[0]
        ends.append(total)
    kinds = [d[: -len(n)] for d, n in zip(frame.declarations, names, strict=True)]
    for k in range(parts):
        parameters += [f"const int part{k}_{n}" for n in names[len(first.buffers) :]]
        parameters.append(f"const int end{k}")
    for kind, name in zip(kinds, names, strict=True):
        plain = kind.replace("restrict ", "")
        if "*" not in plain:
            plain = plain.replace("const ", "")
        choices.append(f"{plain}chosen_{name} = part0_{name};")
    choices.append("int begin = 0;")
    for k in range(1, parts):
        taken = " ".join(f"chosen_{n} = part{k}_{n};" for n in names)
        choices.append(f"if (group >= end{k - 1}) {{ {taken} begin = end{k - 1}; }}")
    body = frame.body.replace("get_global_id(0)", "part_item")
    assert "get_group_id" not in body and "get_local_id" not in body
    items = "group - begin" if local[0] == 1 else f"(group - begin) * {local[0]} + get_local_id(0)"
    chosen = ", ".join(f"chosen_{n}" for n in names)
    name = f"{first.name}_times_{parts}"
    lines = "\n".join(f"    {c}" for c in choices)
    text = (
        f"{frame.prelude}\n"
        f"static inline void one_part({', '.join(frame.declarations)}, const int part_item)\n"
        f"{{\n{body}\n}}\n\n"
        f"__kernel {frame.attribute}\nvoid {name}({', '.join(parameters)})\n{{\n"
        f"    const int group = get_group_id(0);\n{lines}\n"
        f"    one_part({chosen}, {items});\n}}\n"
    )
    literals = [n for k, s in enumerate(padded) for n in (*s.literals, ends[k])]
    return KernelSource(
        name,
        text,
        tuple(b for s in padded for b in s.buffers),
        (),
        tuple(literals),
        (total * local[0],),
        local,
        merged(s.origin for s in sources),
        tuple(t for s in padded for t in s.dtypes),
    )
