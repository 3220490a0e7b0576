"""Kernels whose work-groups have one work-item, written so that a driver compiles them once.

Intel's compiler builds a second variant of a kernel, vectorised over as many work-items as a vector
has lanes. A work-group of one never runs it, but it doubles compile time and the size of the
binary: 0.20 and 0.10 s for a layer norm, 29 and 14 KB; 2.2 and 0.26 s for a product by the matrix
unit, 336 and 40 KB. An attribute suppresses it.

PoCL puts a kernel's code into three functions, of which it calls one; and of another it makes
vectors of half the width, which the registers do not hold. So the code is a function of its own,
which the three call.
"""

from __future__ import annotations

import re

from ocl_inductor.kernel_text.file_scope import KernelText, definitions

_ONE_ITEM = "reqd_work_group_size(1, 1, 1)"
_ITEM = re.compile(r"\bget_global_id\((\d)\)")
#: What only a kernel may say, or what the driver has to see in it.
_OTHER_ITEMS = re.compile(
    r"\b(__local|barrier|get_(?!global_id\(\d\))\w+_(id|size|groups|offset))\b"
)


def for_one_item(source: str, attribute: str, outlined_vector_bits: int) -> str:
    """A kernel's source in the form best for a device; other kernels are unchanged.

    ``attribute``: what the kernel is to say, if anything. ``outlined_vector_bits``: 0, or
    the code is to be a function of its own, with vectors of so many bits.

    Raises:
        ValueError: the source cannot be parsed.
    """
    if _ONE_ITEM not in source:
        return source
    if attribute:
        source = source.replace(_ONE_ITEM, f"{_ONE_ITEM}, {attribute}")
    return _outlined(source, outlined_vector_bits) if outlined_vector_bits else source


def _outlined(source: str, vector_bits: int) -> str:
    """The kernel's code as a function of its work-item's numbers, called by the kernel alone."""
    kernels = [found for found in definitions(source) if isinstance(found, KernelText)]
    if len(kernels) != 1 or _OTHER_ITEMS.search(source):
        return source
    (kernel,) = kernels
    before, _, after = source.partition(kernel.text)
    if _ITEM.search(before + after):
        return source
    numbers = sorted(set(_ITEM.findall(kernel.body)))
    parameters = ", ".join([*(f"const long item{n}" for n in numbers), kernel.parameters])
    names = [re.findall(r"\w+", parameter)[-1] for parameter in kernel.parameters.split(",")]
    arguments = ", ".join([*(f"get_global_id({n})" for n in numbers), *names])
    comment, word, head = kernel.text.partition("__kernel")
    head = (word + head).partition("{")[0].rstrip()
    function = f"{kernel.name}_item"
    body = _ITEM.sub(r"item\1", kernel.body)
    return (
        f"{before}{comment}__attribute__((noinline, min_vector_width({vector_bits})))\n"
        f"static void {function}({parameters})\n{{\n{body}\n}}\n\n"
        f"{head}\n{{\n    {function}({arguments});\n}}{after}"
    )
