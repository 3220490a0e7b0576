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

from dataclasses import replace

from ocl_inductor.plan.kernel_code import KernelCode, item, work_group

ONE_ITEM = work_group("1, 1, 1")


def for_one_item(code: KernelCode, attribute: str, outlined_vector_bits: int) -> KernelCode:
    """A kernel in the form best for a device; those of larger groups are unchanged.

    ``attribute``: what the kernel is to say, if anything. ``outlined_vector_bits``: 0, or
    the code is to be a function of its own, with vectors of so many bits.
    """
    if ONE_ITEM not in code.attributes:
        return code
    if attribute:
        code = replace(code, attributes=(*code.attributes, attribute))
    if not outlined_vector_bits or not code.items:
        return code
    function = code.function(f"{code.name}_item", function_head(outlined_vector_bits))
    arguments = [*map(item, code.dimensions), *(p.name for p in code.parameters)]
    body = f"    {function.name}({', '.join(arguments)});"
    return replace(code, definitions=(*code.definitions, function), body=body)


def function_head(outlined_vector_bits: int) -> str:
    """What stands before the name of a function that is compiled once, by itself."""
    width = f", min_vector_width({outlined_vector_bits})" if outlined_vector_bits else ""
    return f"__attribute__((noinline{width}))\nstatic void"
