"""Kernels of one work-item as drivers are best given them."""

from __future__ import annotations

import pytest

from ocl_inductor.kernel_text.one_item import for_one_item

KERNEL = """#pragma OPENCL FP_CONTRACT ON
static float twice(float x) { return 2 * x; }

// Doubles numbers.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void double_them(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const int n = get_global_id(1) * k0 + get_global_id(0);
    if (n < k0) {
        arg1[n] = twice(arg0[n]);
    }
}
"""


def test_code_apart() -> None:
    assert (
        for_one_item(KERNEL, "", 512)
        == """#pragma OPENCL FP_CONTRACT ON
static float twice(float x) { return 2 * x; }

// Doubles numbers.
__attribute__((noinline, min_vector_width(512)))
static void double_them_item(const long item0, const long item1, __global const float *restrict \
arg0, __global float *restrict arg1, const int k0)
{
    const int n = item1 * k0 + item0;
    if (n < k0) {
        arg1[n] = twice(arg0[n]);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void double_them(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    double_them_item(get_global_id(0), get_global_id(1), arg0, arg1, k0);
}
"""
    )


def test_kernel_that_is_launched_once() -> None:
    one = KERNEL.replace("get_global_id(1)", "0").replace("get_global_id(0)", "0")
    assert "    double_them_item(arg0, arg1, k0);" in for_one_item(one, "", 512)


@pytest.mark.parametrize(
    "other",
    [
        KERNEL.replace("(1, 1, 1)", "(64, 1, 1)"),
        KERNEL.replace("    if", "    barrier(CLK_LOCAL_MEM_FENCE);\n    if"),
        KERNEL.replace("    if", "    __local float shared[4];\n    if"),
        KERNEL.replace("get_global_id(0)", "get_group_id(0)"),
        KERNEL.replace("get_global_id(0)", "get_global_id(k0)"),
        KERNEL.replace("return 2 * x", "return get_global_id(0) * x"),
        KERNEL + KERNEL.partition("// Doubles numbers.")[2].replace("double_them", "again"),
        "",
    ],
)
def test_others_stay(other: str) -> None:
    assert for_one_item(other, "", 512) == other


def test_attribute_of_the_kernel() -> None:
    kernel = for_one_item(KERNEL, "one_lane", 512).partition("__kernel")[2]
    assert "reqd_work_group_size(1, 1, 1), one_lane))" in kernel
    whole = for_one_item(KERNEL, "one_lane", 0)
    assert whole == KERNEL.replace("(1, 1, 1)", "(1, 1, 1), one_lane")


def test_devices_that_need_nothing() -> None:
    assert for_one_item(KERNEL, "", 0) == KERNEL
