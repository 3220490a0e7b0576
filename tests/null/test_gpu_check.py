"""The gate for GPU code: what is read out of real compilers' listings, and what counts as worse.

``listings`` has what each compiler made of ``dot.cl``, whose loop has four multiply-adds, a load of
a float4 and one of a float (Intel's compiler makes two threads' halves of each).
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from gpu_check import report
from gpu_check.compilers import amd, intel, nvidia, portable
from gpu_check.figures import RULES, Figures, best, worse
from gpu_check.launches import asks_too_much, is_starved
from gpu_check.ratchet import Ratchet, complaints, improved, merged, read_ratchet, write_ratchet
from gpu_check.reading import Reading, read
from gpu_check.strides import strided
from gpu_check.targets import DEVICES
from ocl_inductor.device.described import find_target
from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter
from ocl_inductor.plan.plan import Kernel, Launch

LISTINGS = Path(__file__).parent / "listings"
ROOT = Path(__file__).parents[2]


def listing(arch: str) -> str:
    return (LISTINGS / f"{arch}.s").read_text()


@pytest.mark.parametrize(
    ("arch", "isa", "expected"),
    [
        ("gfx1030", "amdgcn", Reading(fma=4, loop=14, loads=2, wide=1, address64=15)),
        ("gfx1100", "amdgcn", Reading(fma=4, loop=15, loads=2, wide=1, address64=15)),
        ("sm_86", "sass", Reading(fma=4, loop=16, loads=2, wide=1, address64=7)),
        ("dg2", "xe", Reading(fma=8, loop=29, loads=4, wide=2, address64=0)),
    ],
)
def test_listings_are_read(arch: str, isa: str, expected: Reading) -> None:
    assert read(listing(arch), isa) == expected


@pytest.mark.parametrize(
    ("arch", "isa", "old", "new", "changed"),
    [
        ("gfx1030", "amdgcn", "v_fmac_f32", "v_fmac_i32", {"fma": 0, "loop": 0}),
        ("gfx1030", "amdgcn", "s_cbranch_scc0 .LBB0_2", "s_nop 0", {"fma": 0, "loop": 0}),
        ("gfx1030", "amdgcn", "load_dwordx4", "load_dword", {"wide": 0}),
        ("gfx1100", "amdgcn", "load_b128", "load_b32", {"wide": 0}),
        ("gfx1100", "amdgcn", "v_add_co_u32 v3,", "v_add_nc_u32 v3,", {"address64": 13}),
        ("gfx1100", "amdgcn", "v_fmac_f32_e32 v0,", "v_dual_fmac_f32 v0, v1 :: v_dual_fmac_f32 v1,",
         {"fma": 5, "loop": 16}),
        ("sm_86", "sass", "@P0 BRA `(.L_x_1)", "@P0 BRA `(.L_x_0)", {"fma": 0, "loop": 0}),
        ("sm_86", "sass", "LDG.E.128", "LDG.E", {"wide": 0}),
        ("sm_86", "sass", "LDG.E.CONSTANT", "LDS", {"loads": 1}),
        ("sm_86", "sass", "IMAD.X", "IMAD", {"address64": 6}),
        ("dg2", "xe", "L960 L648", "L960 L960", {"fma": 0, "loop": 0}),
        ("dg2", "xe", "rd:8; untyped surface read with xyzw", "rd:2; untyped surface read with x",
         {"wide": 0}),
        ("dg2", "xe", "0x04205E01", "0x04205EFE", {"loads": 2}),
        ("dg2", "xe", " add (16|M0) r40", " addc (16|M0) r40", {"address64": 2}),
    ],
)  # fmt: skip
def test_other_instructions_are_read_as_others(
    arch: str, isa: str, old: str, new: str, changed: dict[str, int]
) -> None:
    text = listing(arch)
    assert old in text
    was, now = read(text, isa), read(text.replace(old, new), isa)
    assert now == dataclasses.replace(was, **changed)


def test_a_loop_inside_is_another_loop() -> None:
    inner = ".LBB0_1:\n\tv_fma_f32 v0\n\tv_fma_f32 v1\n\ts_cbranch_scc1 .LBB0_1\n"
    outer = f".LBB0_0:\n\tv_fma_f32 v2\n\tv_mov_b32 v3\n{inner}\ts_branch .LBB0_0\n"
    found = read(f"{outer}\ts_endpgm\n", "amdgcn")
    assert (found.fma, found.loop) == (2, 3)
    emptied = read(outer.replace("v_fma_f32 v0", "v_mov_b32").replace("v_fma_f32 v1", "s_nop"),
                   "amdgcn")  # fmt: skip
    assert (emptied.fma, emptied.loop) == (1, 3)


def test_figures_of_amds_metadata() -> None:
    text = listing("gfx1030")
    found = amd.read(text)
    assert (found.registers, found.spilled, found.private, found.occupancy) == (15, 0, 0, 100)
    text = text.replace("vgpr_spill_count: 0", "vgpr_spill_count: 3")
    text = text.replace("sgpr_spill_count: 0", "sgpr_spill_count: 4")
    text = text.replace("private_segment_fixed_size: 0", "private_segment_fixed_size: 96")
    text = text.replace("group_segment_fixed_size: 0", "group_segment_fixed_size: 2048")
    found = amd.read(text.replace("Occupancy: 16", "Occupancy: 4"))
    assert (found.spilled, found.private, found.local, found.occupancy) == (7, 96, 2048, 25)


PTXAS = """\
ptxas info    : Compiling entry function 'dot' for 'sm_86'
ptxas info    : Function properties for dot
    256 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 24576 bytes smem, 400 bytes cmem[0]
"""


def test_figures_of_ptxas() -> None:
    found = nvidia.read(PTXAS, "", "sm_86", 128)
    assert (found.registers, found.spilled, found.private, found.local) == (168, 12, 256, 24576)
    assert found.occupancy == 25  # three groups of four warps by registers, of 48 warps


@pytest.mark.parametrize(
    ("registers", "local", "items", "percent"),
    [
        (32, 0, 256, 100),
        (128, 0, 256, 33),  # 65536 / (128 * 256): two groups of eight warps
        (32, 49152, 256, 33),  # two groups fit 100 KiB
        (32, 0, 32, 33),  # no more than sixteen groups
        (255, 0, 1024, 0),  # cannot run
    ],
)
def test_occupancy(registers: int, local: int, items: int, percent: int) -> None:
    assert nvidia.occupancy("sm_86", registers, local, items) == percent


ZE_INFO = """\
kernels:
  - name:            dot
    execution_env:
      grf_count:       128
      simd_size:       8
      slm_size:        24576
    payload_arguments:
      - arg_type:        arg_byvalue
        size:            4
    per_thread_memory_buffers:
      - type:            scratch
        usage:           single_space
        size:            64
      - type:            global
        usage:           private_space
        size:            512
kernels_misc_info:
  - name:            dot
    size:            9
"""


def test_figures_of_ze_info() -> None:
    said = "warning: kernel dot  compiled SIMD8 allocated 128 regs and spilled around 2"
    found = intel.read(ZE_INFO, "", said)
    assert (found.spilled, found.private, found.local, found.occupancy) == (2, 576, 24576, 25)
    plain = ZE_INFO[: ZE_INFO.index("    per_thread")].replace("size:       8", "size:       32")
    found = intel.read(plain, "", "")
    assert (found.spilled, found.private, found.occupancy) == (0, 0, 100)


def test_arrays_of_llvms_code() -> None:
    text = """\
@k.tile = internal addrspace(3) global [32 x [33 x float]] undef, align 4
@k.flag = internal addrspace(3) global i32 undef, align 4
  %h = alloca <4 x half>, align 8
  %items = alloca [16 x <2 x i64>], align 16
"""
    found = portable.read(text)
    assert (found.local, found.private) == (32 * 33 * 4 + 4, 256)


# -- launches ----------------------------------------------------------------------------------


def launch(*literals: int, size: int = 4096, nbytes: int = 0, flops: int = 0) -> Launch:
    return Launch(0, ("a", "b"), (), literals, (size,), (64,), flops, nbytes)


def steps(body: str, *literals: int, group: tuple[int, ...] = (64,)) -> set[str]:
    parameters = (
        KernelParameter("__global const float *restrict ", "arg0"),
        KernelParameter("__global float *restrict ", "arg1"),
        KernelParameter("const int ", "k0"),
    )
    code = KernelCode("k", (), ("reqd_work_group_size(64, 1, 1)",), parameters, body, 1)
    return strided(Kernel(code, ()), dataclasses.replace(launch(*literals), local_size=group))


POINT = "const int point = item0;\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("arg1[point] = arg0[point];", set()),
        ("arg1[point] = arg0[point * 2];", set()),
        ("arg1[point] = arg0[k0 * point];", {"arg0"}),
        ("arg1[point * k0 + 1] = arg0[0];", {"arg1"}),
        ("const int v0 = point / (k0);\nconst int v1 = point % (k0);\narg1[v1 * 99 + v0] = 0;",
         {"arg1"}),
        ("const int row = point / 4, at = point % 4 * 4;\n"
         "const float4 x = *(__global const float4 *)(arg0 + row * 16 + at);", set()),
        ("const float4 x = (*(__global const float4*)(arg0 + (16*point)));", {"arg0"}),
        ("__global const float *a = arg0 + point * 16;\nconst float x = a[3];", {"arg0"}),
        ("const long t1 = ocl_index(arg1[point]);\nconst int t2 = ((int)(t1));\n"
         "const float x = arg0[(k0*(int)(t2)) + point];", set()),
        ("for (int t = point; t < k0; t += 64) {\n  const int i = t * 16;\n  arg1[i] = 0;\n}",
         {"arg1"}),
        ("__local float tile[2048];\ntile[point * 32] = 0;", set()),
        ("vstore_half4_rte(f(x, 1), point * 8, arg1);", {"arg1"}),
        ("vstore_half4_rte(x, point, arg1);", set()),
        ("const float x = vload_half(point * 9, arg0);", {"arg0"}),
        ("// arg0[k0 * point]", set()),
    ],
)  # fmt: skip
def test_large_steps_are_found(body: str, found: set[str]) -> None:
    assert steps(POINT + body, 56) == found


def test_steps_depend_on_the_sizes_and_the_group() -> None:
    body = POINT + "arg1[point] = arg0[k0 * point];"
    assert steps(body, 1) == set()
    square = "const int at = get_local_id(0) * 8 + get_local_id(1);\narg1[at] = 0;"
    assert steps(square, 1, group=(8, 8)) == set()
    wide = "const int at = get_local_id(0) * 64 + get_local_id(1);\narg1[at] = 0;"
    assert steps(wide, 1, group=(32, 2)) == {"arg1"}


def test_starved_launches() -> None:
    target = find_target("rx-6800")
    assert target is not None and target.compute_units == 60
    assert is_starved(launch(size=64, nbytes=1 << 20), target)
    assert is_starved(launch(size=64, flops=1 << 24), target)
    assert not is_starved(launch(size=64, nbytes=1 << 12), target)  # too little for 60 units
    assert not is_starved(launch(size=60 * 64, nbytes=1 << 30), target)


def test_limits() -> None:
    target = find_target("least")
    assert target is not None
    assert not asks_too_much(launch(), 16384, target)
    assert asks_too_much(launch(), 16385, target)
    assert asks_too_much(dataclasses.replace(launch(), local_size=(8, 16)), 0, target)


# -- the record --------------------------------------------------------------------------------

GOOD = Figures(
    kernels=2, failures=0, spilled=0, private=0, registers=100, occupancy=50, fma=80, wide=60,
    address64=100, starved=0, strided=1,
)  # fmt: skip


def changed(**figures: int | None) -> Figures:
    return dataclasses.replace(GOOD, **figures)  # type: ignore[arg-type]


def complain(now: Figures, same: bool = True) -> list[str]:
    return list(worse(now, GOOD, same))


@pytest.mark.parametrize("name", RULES)
def test_every_figure_can_get_worse_and_better(name: str) -> None:
    was, rule = getattr(GOOD, name), RULES[name]
    found = changed(**{name: was + 10 * rule.sign})
    assert complain(found) == [f"{name} {was} -> {was + 10 * rule.sign}"]
    assert complain(changed(**{name: was - 10 * rule.sign})) == []
    assert getattr(best(found, GOOD), name) == was
    assert bool(complain(found, same=False)) != rule.compiled


def test_a_loop_that_is_gone_is_worse_and_slack_is_small() -> None:
    assert complain(changed(fma=None)) == ["fma 80 -> None"]
    assert complain(changed(registers=104, fma=79, address64=109)) == []
    assert complain(changed(registers=105)) == ["registers 100 -> 105"]
    assert complain(changed(kernels=9)) == []


def ratchet(version: str = "1", **rows: Figures) -> Ratchet:
    return Ratchet(
        {"gpu": version}, dict.fromkeys(rows, "rows"), {("gpu", c): f for c, f in rows.items()}
    )


def test_the_record_keeps_the_best(tmp_path: Path) -> None:
    record = ratchet(a=GOOD, gone=GOOD)
    now = ratchet(a=changed(registers=90, private=64), b=GOOD)
    assert list(complaints(now, record)) == [
        "gpu a: private 0 -> 64", "gpu b: not on record; --update adds it"
    ]  # fmt: skip
    assert improved(now, record) == [("gpu", "a")]
    found = merged(now, record, (), ["a", "b"])
    assert found.rows == {("gpu", "a"): changed(registers=90), ("gpu", "b"): GOOD}
    write_ratchet(found, tmp_path / "r")
    assert read_ratchet(tmp_path / "r") == found
    accepted = merged(now, record, ["a*"], ["a", "b"])
    assert accepted.rows["gpu", "a"].private == 64


def test_another_compiler_is_judged_by_what_is_not_its_own() -> None:
    now = ratchet("2", a=changed(private=64, starved=1))
    assert list(complaints(now, ratchet(a=GOOD))) == ["gpu a: starved 0 -> 1"]
    assert merged(now, ratchet(a=GOOD), (), ["a"]).rows == now.rows


def test_the_report_names_what_is_bad() -> None:
    text = report.tables(ratchet(a=changed(private=64), b=GOOD))
    assert "| rows | 2 | 4 | 0 | 0 | 64 | 50% | 80% | 60% | 0 | 2 |" in text
    assert "| private memory, bytes | a 64 |" in text
    assert "| starved launches | none |" in text


def test_the_record_has_every_device() -> None:
    record = read_ratchet()
    cases = {case for _, case in record.rows}
    assert set(record.compilers) == {d.name for d in DEVICES}
    assert set(record.rows) == {(d.name, case) for d in DEVICES for case in cases}
    assert len(cases) >= 50


def test_the_lab_is_set_up_once(tmp_path: Path, clean_env: dict[str, str]) -> None:
    """A second call does nothing; a lab of another script's is made anew."""
    import hashlib

    script = ROOT / "tools" / "gpu_lab.sh"
    environment = {**clean_env, "GPU_LAB": str(tmp_path), "PATH": os.defpath}
    (tmp_path / "made-by").write_text(hashlib.sha256(script.read_bytes()).hexdigest())
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
