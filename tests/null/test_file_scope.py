"""Texts of kernels taken apart into definitions, and put together as one program."""

from __future__ import annotations

import re

import pytest
import torch

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.launches.serial_kernel import chain
from ocl_inductor.ir.nodes import Origin
from ocl_inductor.kernel_text.file_scope import Definition, KernelText, definitions
from ocl_inductor.kernel_text.program import one_program

TEXT = """#pragma OPENCL FP_CONTRACT ON
typedef float8 __attribute__((aligned(4))) vec_u;
#define TWICE(x) \\
    (2 * (x))
__constant float table[2] = {1, 2};  // not { a brace
/* nor ; this */
static inline float half_of(float x) { return x / 2; }

// Halves.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void halve(__global const float *restrict in0, __global float *restrict buf1, const int k0)
{
    const int i = get_global_id(0);
    for (int j = 0; j < k0; ++j) { buf1[i + j] = half_of(in0[i + j]); }
}
"""


def source(text: str, name: str, *buffers: str, size: int = 3) -> KernelSource:
    origin = Origin((name,), (name,), "")
    types = (torch.float32,) * len(buffers)
    return KernelSource(name, text, buffers, (), (1,), (size,), (1,), origin, types)


def test_definitions() -> None:
    found = list(definitions(TEXT))
    names = [d.name for d in found]
    assert names == ["", "vec_u", "TWICE", "table", "half_of", "halve"]
    assert found[3] == Definition("table", "__constant float table[2] = {1, 2};")
    kernel = found[-1]
    assert isinstance(kernel, KernelText)
    assert kernel.parameters.split(", ")[1:] == ["__global float *restrict buf1", "const int k0"]
    assert kernel.body.startswith("    const int i") and kernel.body.endswith("}")


def test_a_type_with_attributes_before_its_name() -> None:
    text = "typedef struct { uchar a, b[2]; } __attribute__((packed, aligned(64))) pair_t;"
    first, second = definitions(f"{text}\nint one(void) {{ return 1; }}")
    assert first == Definition("pair_t", text)
    assert second.name == "one"


@pytest.mark.parametrize("text", ["#include <x>\n", "__kernel void f(int a);", "f(1);"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        list(definitions(text))


def test_equal_kernels_are_written_once() -> None:
    """Whatever their names and the names of their buffers are."""
    others = {"halve": "other", "in0": "buf1", "buf1": "buf2"}
    again = re.sub("|".join(others), lambda m: others[m[0]], TEXT)
    made = chain([source(TEXT, "halve", "in0", "buf1"), source(again, "other", "buf1", "buf2")])
    assert made.text.count("static void") == made.text.count("typedef") == 1
    assert made.text.count("    halve(i0, ") == 2
    assert made.buffers == ("in0", "buf1", "buf2")
    assert made.global_size == (1,)
    assert "restrict" not in made.text[made.text.index("__kernel") :]


def test_names_that_mean_something_else() -> None:
    """A helper, and a kernel, whose names are taken get others; what uses them follows."""
    third = TEXT.replace("x / 2", "x / 3")
    made = chain([source(TEXT, "halve", "in0", "buf1"), source(third, "halve", "buf1", "buf2")])
    assert "float half_of_1(float x) { return x / 3; }" in made.text
    assert "= half_of_1(arg0[i + j])" in made.text
    assert made.text.count("    halve_1(i0, ") == 1
    assert made.text.count("typedef") == made.text.count("#pragma") == 1


def test_one_work_item_needs_no_loop() -> None:
    made = chain([source(TEXT, "halve", "in0", "buf1", size=1)] * 2)
    assert made.text.count("    halve(0, in0, buf1, 1);") == 2


def test_kernels_of_one_program() -> None:
    """Each has its own functions; types, constants and pragmas are written once."""
    text, names = one_program([TEXT, TEXT.replace("x / 2", "x / 3")])
    assert names == ("halve", "halve_1")
    assert [text.count(x) for x in ("typedef", "#pragma", "table[2]", "__kernel")] == [1, 1, 1, 2]
    assert text.count("reqd_work_group_size(1, 1, 1)") == 2
    assert "= half_of_1(in0[i + j])" in text.split("halve_1")[1]
    assert text.count("half_of_1") == 2
    again, _ = one_program([TEXT, TEXT])
    assert again.count("float half_of(float x)") == again.count("float half_of_1(float x)") == 1


@pytest.mark.parametrize("text", ["", TEXT + TEXT.replace("halve", "other"), "#include <x>"])
def test_sources_without_one_kernel_are_no_part_of_a_program(text: str) -> None:
    with pytest.raises(ValueError):
        one_program([TEXT, text])


def test_a_new_name_may_be_one_that_the_source_uses_itself() -> None:
    """``f`` becomes ``f_1`` beside another ``f``, and the source's own ``f_1`` something else."""
    first = "static int f(int x) { return x; }\n__kernel void a(__global int *o) { o[0] = f(1); }"
    second = (
        "static float f(float x) { return x + 1; }\n"
        "static float f_1(float x) { return f(x) + 2; }\n"
        "__kernel void b(__global float *o) { o[0] = f(1) * f_1(2); }"
    )
    text, names = one_program([first, second])
    assert names == ("a", "b")
    assert "static float f_1(float x) { return x + 1; }" in text
    assert "static float f_1_1(float x) { return f_1(x) + 2; }" in text
    assert "o[0] = f_1(1) * f_1_1(2);" in text
