"""Kernels in their parts, put together as one program, a chain, or a function of their own."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.launches.serial_kernel import chain
from ocl_inductor.codegen.launches.team_kernel import items, team
from ocl_inductor.ir.nodes import Origin
from ocl_inductor.plan.kernel_code import Definition, KernelCode, KernelParameter
from ocl_inductor.plan.one_item import ONE_ITEM, for_one_item
from ocl_inductor.plan.program import one_program
from ocl_inductor.templates import render

PRAGMA = Definition("", "#pragma OPENCL FP_CONTRACT ON")
TYPE = Definition("vec_u", "typedef float8 __attribute__((aligned(4))) vec_u;")
TABLE = Definition("table", "__constant float table[2] = {1, 2};")
HALF = Definition("half_of", "static inline float half_of(float x) { return x / 2; }", True)
THIRD = Definition("half_of", "static inline float half_of(float x) { return x / 3; }", True)


def halving(name: str = "halve") -> KernelCode:
    return KernelCode(
        name,
        (PRAGMA, TYPE, TABLE, HALF),
        (ONE_ITEM,),
        (
            KernelParameter("__global const float *restrict ", "arg0"),
            KernelParameter("__global float *restrict ", "arg1"),
            KernelParameter("const int ", "k0"),
        ),
        "    const int i = item0;\n"
        "    for (int j = 0; j < k0; ++j) { arg1[i + j] = half_of(arg0[i + j]); }",
        1,
        "// Halves.",
    )


def source(code: KernelCode, *buffers: str, size: int = 3) -> KernelSource:
    origin = Origin((code.name,), (code.name,), "")
    types = (torch.float32,) * len(buffers)
    return KernelSource(code, buffers, (), (1,), (size,), (1,), origin, types)


def test_text() -> None:
    assert (
        halving().text
        == """#pragma OPENCL FP_CONTRACT ON
typedef float8 __attribute__((aligned(4))) vec_u;
__constant float table[2] = {1, 2};
static inline float half_of(float x) { return x / 2; }

// Halves.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void halve(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int i = item0;
    for (int j = 0; j < k0; ++j) { arg1[i + j] = half_of(arg0[i + j]); }
}
"""
    )


# -- several as one --------------------------------------------------------------------------


def test_equal_kernels_are_written_once() -> None:
    """Whatever their names and buffers are."""
    again = source(halving("other"), "buf1", "buf2")
    made = chain([source(halving(), "in0", "buf1"), again])
    text = made.code.text
    assert text.count("static void") == text.count("typedef") == 1
    assert text.count("    halve(i0, ") == 2
    assert made.buffers == ("in0", "buf1", "buf2")
    assert made.global_size == (1,)
    assert "restrict" not in text[text.index("__kernel") :]


def test_names_that_mean_something_else() -> None:
    """A helper, and a kernel, whose names are taken get others; what uses them follows."""
    other = replace(halving(), definitions=(PRAGMA, TYPE, THIRD))
    text = chain([source(halving(), "in0", "buf1"), source(other, "buf1", "buf2")]).code.text
    assert "float half_of_1(float x) { return x / 3; }" in text
    assert "= half_of_1(arg0[i + j])" in text
    assert text.count("    halve_1(i0, ") == 1
    assert text.count("typedef") == text.count("#pragma") == 1


def test_one_work_item_needs_no_loop() -> None:
    made = chain([source(halving(), "in0", "buf1", size=1)] * 2)
    assert made.code.text.count("    halve(0, arg0, arg1, 1);") == 2


def test_kernels_of_one_program() -> None:
    """Each has its own functions; types, constants and pragmas are written once."""
    other = replace(halving(), definitions=(PRAGMA, TYPE, TABLE, THIRD))
    text, names = one_program([halving(), other])
    assert names == ("halve", "halve_1")
    assert [text.count(x) for x in ("typedef", "#pragma", "table[2]", "__kernel")] == [1, 1, 1, 2]
    assert text.count("reqd_work_group_size(1, 1, 1)") == 2
    assert "= half_of_1(arg0[i + j])" in text.split("halve_1")[1]
    assert text.count("half_of_1") == 2
    again, _ = one_program([halving(), halving()])
    assert again.count("float half_of(float x)") == again.count("float half_of_1(float x)") == 1


def test_a_new_name_may_be_one_that_the_source_uses_itself() -> None:
    """``f`` becomes ``f_1`` beside another ``f``, and the source's own ``f_1`` something else."""
    out = (KernelParameter("__global float *", "o"),)
    f = Definition("f", "static int f(int x) { return x; }", True)
    first = KernelCode("a", (f,), (), out, "    o[0] = f(1);")
    own = (
        Definition("f", "static float f(float x) { return x + 1; }", True),
        Definition("f_1", "static float f_1(float x) { return f(x) + 2; }", True),
    )
    second = KernelCode("b", own, (), out, "    o[0] = f(1) * f_1(2);")
    text, names = one_program([first, second])
    assert names == ("a", "b")
    assert "static float f_1(float x) { return x + 1; }" in text
    assert "static float f_1_1(float x) { return f_1(x) + 2; }" in text
    assert "o[0] = f_1(1) * f_1_1(2);" in text


# -- work-groups of one ----------------------------------------------------------------------


def test_code_in_a_function_of_its_own() -> None:
    text = for_one_item(replace(halving(), items=2), "", 512).text
    assert text.endswith(
        """
__attribute__((noinline, min_vector_width(512)))
static void halve_item(const size_t item0, const size_t item1, \
__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const int i = item0;
    for (int j = 0; j < k0; ++j) { arg1[i + j] = half_of(arg0[i + j]); }
}

// Halves.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void halve(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const size_t item1 = get_global_id(1);
    halve_item(item0, item1, arg0, arg1, k0);
}
"""
    )


@pytest.mark.parametrize(
    "other",
    [
        replace(halving(), attributes=("reqd_work_group_size(64, 1, 1)",)),
        replace(halving(), items=0),  # its work-items share something
    ],
)
def test_others_stay(other: KernelCode) -> None:
    assert for_one_item(other, "", 512) == other


def test_attribute_of_the_kernel() -> None:
    kernel = for_one_item(halving(), "one_lane", 512).text.partition("__kernel")[2]
    assert "reqd_work_group_size(1, 1, 1), one_lane))" in kernel
    whole = for_one_item(halving(), "one_lane", 0)
    assert whole.text == halving().text.replace("(1, 1, 1)", "(1, 1, 1), one_lane")


def test_devices_that_need_nothing() -> None:
    assert for_one_item(halving(), "", 0) == halving()


# -- templates -------------------------------------------------------------------------------


def rendered(text: str) -> render.RenderedKernel:
    return render._parts(render._environment().from_string(text).render())


KERNEL = "// Zeros.\n{% call kernel(8, 1, 1) %}\n    x[item0] = 0;\n{% endcall %}\n"


def test_blocks_of_a_template() -> None:
    helper = '{% call function("f") %}\nint f() { return 1; }\n{% endcall %}\n'
    found = rendered(helper + '{% call definition("N") %}\n#define N 2\n{% endcall %}\n' + KERNEL)
    assert found.definitions == (
        Definition("f", "int f() { return 1; }\n", True),
        Definition("N", "#define N 2"),
    )
    assert (found.group, found.body) == ("8, 1, 1", "    x[item0] = 0;")
    assert (found.comment, found.together) == ("// Zeros.", False)
    assert rendered(KERNEL.replace("1)", "1, together=true)")).together


@pytest.mark.parametrize("text", ["", KERNEL + KERNEL, "int f() { return 1; }\n" + KERNEL])
def test_templates_without_one_kernel_or_with_more(text: str) -> None:
    with pytest.raises(ValueError):
        rendered(text)


def test_a_team() -> None:
    """Each part waits for those before it; a function that two parts share is written once."""
    facts: Any = SimpleNamespace(compute_units=4, outlined_vector_bits=0)
    parts = [source(halving(), "in0", "buf1", size=3), source(halving("other"), "buf1", "buf2")]
    made = team([*parts, source(halving(), "buf2", "buf3", size=5)], facts)
    text = made.code.text
    assert text.count("__attribute__((noinline))\nstatic void halve(") == 1
    assert "void other(" not in text
    body = text[text.index("__kernel") :]
    waits = re.findall(r"team_await\(progress, (\d+)\);", body)
    takes = re.findall(r"team_take\(progress, own, (\d), (\d+)\)", body)
    pieces = [int(n) for _, n in takes]
    assert [part for part, _ in takes] == ["0", "1", "2"]
    assert [int(n) for n in waits] == [pieces[0], pieces[0] + pieces[1]]
    assert made.buffers == ("progress", "in0", "buf1", "buf2", "buf3")
    assert pieces == [3, 3, 5] and made.global_size == (4,)
    assert "restrict" not in body


def test_pieces_of_several_dimensions() -> None:
    grid = replace(source(halving(), "in0", "buf1"), global_size=(3, 4, 5))
    assert list(items(grid)) == ["piece % 3", "piece / 3 % 4", "piece / 12"]
    assert list(items(replace(grid, global_size=(1, 4)))) == ["piece % 1", "piece"]
