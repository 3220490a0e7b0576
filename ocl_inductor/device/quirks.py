"""Vendor and driver names: here and nowhere else.

A quirk says what it matches, what it changes in a ``DeviceInfo``, and why, with the measurement.
All other code uses the ``DeviceInfo``. A fact that the driver itself reports is no quirk.

Measured, unless said: x86-64 server CPU with AVX-512, 2 threads, torch 2.13.0, float32. Builtins:
4M elements as float16, ms, the minimum of 25 repeats, in two processes with two orders each (with
other load on the machine, which only adds). A builtin is slow above twice the time of torch's eager
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ocl_inductor.device.quirk import (
    CpuNameOverride,
    CpuTargets,
    InlineDevice,
    Names,
    Quirk,
    Unregistered,
    UnusedVariant,
)

#: The entries are imported from here.
__all__ = [
    "CpuNameOverride",
    "CpuTargets",
    "InlineDevice",
    "Names",
    "Quirk",
    "Unregistered",
    "UnusedVariant",
]

_Value = TypeVar("_Value")

# Distributions on the package index with a driver whose .icd names no existing file; discovery
# repairs it (see driver/discovery.py).
DRIVER_WHEELS = ("intel-opencl-rt",)

# Distributions that contain a driver, whose versions are recorded with a measurement.
DRIVER_PACKAGES = (*DRIVER_WHEELS, "pocl-binary-distribution")

# Variables that set the folder of a driver's own cache.
CACHE_VARIABLES = ("POCL_CACHE_DIR",)

# Variables by which a user or a distribution hides or shows drivers, for the doctor.
VARIABLES = {
    "OCL_ICD_FILENAMES": "names more driver libraries to load",
    "OPENCL_VENDOR_PATH": "another name of OCL_ICD_VENDORS, for some loaders",
    "POCL_DEVICES": "the kinds of device that PoCL shows",
    "RUSTICL_ENABLE": "the drivers that Mesa's rusticl shows; without it, none",
    "CUDA_VISIBLE_DEVICES": "the NVIDIA GPUs that programs may see",
    "ROCR_VISIBLE_DEVICES": "the AMD GPUs that programs may see",
}

# Variables that may change which devices a driver lists.
STEERING_VARIABLES = re.compile(
    "(?!OCL_INDUCTOR)(OCL|OPENCL|CL_|POCL|RUSTICL|MESA|LIBGL|GALLIUM|CUDA|NVIDIA|ROCR|HIP|HSA|GPU_|"
    "ZE_|NEO|INTEL|LD_LIBRARY_PATH)"
)

# Folders and files below /dev that determine which hardware a driver may find.
DEVICE_FILES = ("dri", "kfd", "nvidia0", "nvidiactl", "dxg", "accel")

# Platforms (by a part of their name) that list no device by default.
HIDDEN_DEVICES = {
    "rusticl": "It shows a GPU when RUSTICL_ENABLE names its driver (radeonsi, iris), and its "
    "software device with RUSTICL_ENABLE=llvmpipe.",
}

# Makers of GPUs by PCI vendor ID: name, and the source of an OpenCL driver for them.
GPU_MAKERS = {
    0x10DE: ("NVIDIA", "the NVIDIA driver itself (it brings libnvidia-opencl.so.1)"),
    0x1002: ("AMD", "ROCm (package rocm-opencl-runtime), or Mesa's mesa-opencl-icd"),
    0x8086: ("Intel", "Intel's compute runtime (package intel-opencl-icd)"),
}

# Preference of a driver without an entry; lower is better.
DEFAULT_PREFERENCE = 50
# From here on a driver is chosen only when there is no other, whatever kind it reports.
LAST_RESORT = 1000


#: NVIDIA's container toolkit mounts libnvidia-opencl.so.1, but not its nvidia.icd.
UNREGISTERED = (Unregistered("libnvidia-opencl", "libcuda"),)

#: Folders with drivers' libraries, after those in LD_LIBRARY_PATH; querying the dynamic loader's
#: cache would start a process.
LIBRARY_FOLDERS = (
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/run/opengl-driver/lib",
)


_POCL = r"PoCL (\d+\.\d+)"
_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"})
_AVX512 = _AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}

#: Instruction sets that code for a CPU may target, and the flags, as Linux lists them, that they
#: need.
CPU_TARGETS = {
    "avx512": _AVX512,
    "avx2": _AVX2,
    "avx": frozenset({"avx"}),
    "sse4.2": frozenset({"sse4_2"}),
}

QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        match={"platform_name": "^NVIDIA CUDA$"},
        changes={"separate_scratch": True},
        why="A launch takes 9 us of the host, and 0.09 more for each sub-buffer that overlaps one "
        "of its arguments: 32.5 us with 256 of them on an H200 (driver 580), where 800 that do not "
        "overlap cost nothing. In one allocation, blocks that are alive at other times overlap: "
        "with 150 to 300 of them the 679 launches of a training step of ResNet-50 took 31 us each.",
    ),
    Quirk(
        match={"platform_name": r"^Intel\(R\) OpenCL$"},
        short="intel",
        preference=10,
        changes={
            "slow_builtins": frozenset({"asin", "lgamma"}),
            "prefetch": True,
            "inline_assembly": True,
            "streaming": True,
            "vectorizes_sums": False,
            "teams": True,
            "launch_s": 4.5e-6,
            "wait_s": 4e-6,
        },
        why="Best of the CPU runtimes: FMA peak 448 GFLOP/s against 234 on PoCL 3.0; an empty "
        "kernel with finish() 5-9 us against 50-100 (on a Zen 3 machine). Slow builtins, "
        "driver/torch: asin 3.4/0.78 (3.4-3.6 in five runs of seven, 6.6 in one under load, 1.25 "
        "in one: not explained), lgamma 27.7/9.9. Within 1.2x of torch: "
        "log 0.61/0.58, tanh 0.65/0.59, sin 0.66/0.72, erf 1.11/0.94, erfc "
        "0.98/1.1, pow 1.4/4.5. At float8 on this AVX-512 machine log is 1.6; an AVX2 machine, "
        "where float8 is the native width, was not measured. prefetch: 512x3072x768 with weights "
        "that are not in cache 288 GFLOP/s, with __builtin_prefetch 315; OpenCL's own prefetch() "
        "is a function call, 130. streaming: y = 2 x over 16 MiB 1.11 ms, with "
        "__builtin_nontemporal_store 0.73. vectorizes_sums: its vectors lose what does not depend "
        "on memory: for (v = 0; v < 40; ++v) acc -= 1.5f; makes -12, acc -= v; makes -284 (seed "
        "425774657 of make fuzz, program 1539). inline_assembly: an empty statement hides how far "
        "rows are apart, see templates/tile_tables.py. "
        "launch_s, wait_s: a small kernel with finish() 9.9 us, "
        "14.2 when nothing ran for 200 us, ten with one finish() 80; in the calling thread 4.6, "
        "5.9 and 31. teams: mobilenet_v3_large at batch 1 5.31 ms instead of 6.19 (on a Zen 4).",
    ),
    Quirk(
        match={"platform_version": _POCL},
        short="pocl-{version}",
        preference=21,
        changes={
            "slow_builtins": frozenset("log2 tanh erf erfc sin cos tan acos atan pow".split()),
            "prefetch": True,
            "inline_assembly": True,
            "names_registers": True,
            "streaming": True,
            "teams": True,
            "launch_s": 7e-6,
            "wait_s": 45e-6,
        },
        why="Slow builtins on 3.0, driver/torch: log2 2.6/0.58, tanh 1.37/0.59, erf 3.7/0.94, erfc "
        "5.2/1.1, sin 3.0/0.72, cos 3.05/0.76, tan 3.4/0.85, acos 1.86/0.81, atan 1.73/0.69, pow "
        "16/4.5; 3.1 is within 10% of it. At the limit but not over: log10 1.18/0.59, log "
        "1.05/0.58. Not slow: asin 1.33/0.78, lgamma 9.5/9.9, and by a run of 4 repeats exp "
        "0.82/0.57, log1p 1.7/1.5, expm1 2.2/2.1, rsqrt 0.8/0.7, sinh 3.0/2.4, cosh 3.3/2.4, "
        "atan2 2.4/2.4, fmod 3.1/2.4. prefetch: 512x3072x768 with weights that are not in cache "
        "268 GFLOP/s, with __builtin_prefetch 308. streaming: y = 2 x over 16 MiB 2.02 ms, with "
        "__builtin_nontemporal_store 1.24. inline_assembly: as Intel's, whose front end compiles "
        "for an abstract processor and takes no name of a register. One float a work-item is "
        "worse still: erf 51 ms (on a Zen 3 machine). launch_s, wait_s: a small "
        "kernel with finish() 49-69 us, 95-230 when nothing ran for 200 us, ten with one "
        "finish() 114-196; on the basic device 2.3, 4.0 and 21. teams: mobilenet_v3_large at "
        "batch 1 4.48 ms instead of 5.67 on 3.0, 4.33 instead of 5.46 on 3.1 (on a Zen 4).",
    ),
    Quirk(
        match={"platform_version": r"PoCL ([456]\.\d+)"},
        changes={"inline_assembly": False, "names_registers": False},
        why="Its compiler takes a statement of assembly, which is a call of no function, for its "
        "own function that reserves memory, and reads arguments that are not there "
        "(handleLocalMemAllocas): Ubuntu's 5.0 and Debian's 6.0 end the process with LLVM's "
        "'cast<Ty>() argument of incompatible type!', a build without assertions would go on. "
        "Mended in 7.0.",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.[01])", "name": "^pthread-"},
        inline_device=InlineDevice({"POCL_DEVICES": "pthread basic"}, "pthread-", "basic-"),
        why="PoCL's basic device runs kernels in the thread that waits for them. It is listed only "
        "when it is asked for, and then before the other.",
    ),
    Quirk(
        match={"platform_version": r"PoCL ([4-7]\.\d+)", "name": "^cpu-"},
        inline_device=InlineDevice({"POCL_DEVICES": "cpu cpu-minimal"}, "cpu-", "cpu-minimal-"),
        why="The same, by the names that they have from 4.0 on; 5.0, 6.0 and 7.1 were tried. A "
        "kernel of one work-item with finish() takes 1.5 and 3.0 us on 6.0's and 7.1's, 25 and 40 "
        "on their other device (on a Zen 3 machine, under load).",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.[01])"},
        compiling={"POCL_BINARY_SPECIALIZE_WG": "1-1-1-goffs0-smallgrid"},
        why="A binary holds each kernel for work-groups of any size, and the first launch compiles "
        "it again, for the size that it has: in the process that launches, one kernel after the "
        "other. So the binary gets what ours are launched with as well: one work-item in a group, "
        "no offset, less than 65535 groups. ResNet-50 cold 15.0 s, then 12.3; 40 MiB less in the "
        "process that runs it, whose compiler has nothing to do. Without the second version "
        "(POCL_WORK_GROUP_SPECIALIZATION=0) calls take 7 to 24% longer.",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.[01])"},
        changes={"outlined_code": True},
        why="A kernel's code is in three functions of its library: the kernel, and two that call "
        "it, into which it is inlined whatever it says of that. Only one of the two is run. In the "
        "kernel vectors have 256 bits at most on processors with AVX-512, so that a product's sums "
        "lie in memory, which takes the compiler longest. With the code in one function the 41 "
        "kernels of ResNet-50 take PoCL 3.1 4.4 s on one core, else 7.7; the first call takes "
        "5.4 s, then 7.1 (3.0: 5.2 and 9.2). Calls of six models take the same time.",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.[01])"},
        unused_variant=UnusedVariant(
            variable="POCL_CACHE_DIR",
            program="*/*/program.bc",
            version="{kernel}/0-0-0/{kernel}.so",
            symbol="_pocl_kernel_{kernel}_workgroup",
        ),
        why="What a binary holds for work-groups of any size takes as long to compile as all the "
        "rest: ResNet-50 cold, on a Zen 5, 11.8 s with it and 7.1 without on 3.1, 16.0 and 9.2 on "
        "3.0; its binaries take 21 and 14 MB. Nothing launches it unless "
        "POCL_WORK_GROUP_SPECIALIZATION=0, and then it is compiled. From 4.0 on: not tried.",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.0)"},
        cpu_name_override=CpuNameOverride(
            "generic",
            {"skx": _AVX512, "haswell": _AVX2, "x86-64": frozenset()},
        ),
        why="LLVM 14 has no name for AMD's processors of 2024 (Zen 5) and says generic, which its "
        "own front end refuses: error: unknown target CPU 'generic', for every program. With skx "
        "(Skylake's server, which has AVX-512) in its place all tests pass on a Zen 5. Debian's "
        "3.1 with LLVM 15 finds such a name by itself.",
    ),
    Quirk(
        match={"platform_name": r"^Intel\(R\) OpenCL$"},
        cpu_targets=CpuTargets(
            {"avx512": "skx", "avx2": "core-avx2", "avx": "corei7-avx", "sse4.2": "corei7"},
            variable="CL_CONFIG_CPU_TARGET_ARCH",
        ),
        why="So that code for other processors runs on this one, in tests. The registers in its "
        "binaries of 2026.2 follow it: zmm, ymm, ymm without FMA, xmm. Names it does not know make "
        "the device unavailable.",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.[01])"},
        cpu_targets=CpuTargets(
            {"avx512": "skx", "avx2": "znver2", "avx": "btver2", "sse4.2": "corei7"}
        ),
        changes={"library_of_processor": True},
        why="The same. The names are the short ones: they have to fit in the place of another. "
        "The built-in library stays that of the processor. Its functions of the target's width "
        "(16, 8 and 4 float32 lanes) were right in all of 21 tried; exp, conversions and mul_hi of "
        "8 lanes of 64 bits crash, give other numbers or do not build where the target is AVX2 and "
        "the library AVX-512's, since the two pass such vectors in other registers.",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.0)"},
        cpu_name_override=CpuNameOverride("znver3", {"skx": _AVX512}),
        why="LLVM 14 takes AMD's processors of 2022 (Zen 4: family 25, from model 16) for Zen 3, "
        "which has no AVX-512, while the device reports 16 lanes and links the built-in library "
        "that is made for AVX-512: rsqrt of 16 lanes ends the compiler (LLVM ERROR: Cannot select: "
        "i64 = fsqrt), and kernels with tiles for 32 registers of 16 lanes take it minutes each. "
        "As skx a linear layer builds in 0.5 s and all tests pass.",
    ),
    Quirk(
        match={"platform_version": r"PoCL (3\.0)"},
        preference=22,
        changes={"fast_fma": False},
        why="fma() and mad() are function calls although the device reports CL_FP_FMA: eight "
        "chains of float16 run at 22 GFLOP/s with fma() and 234 with a*b+c under FP_CONTRACT; "
        "float8 18 against 164. On 3.1 both forms give 182, on the Intel runtime 448 and 416.",
    ),
    Quirk(
        match={"platform_name": r"^rusticl$", "name": r"^llvmpipe"},
        short="rusticl",
        preference=LAST_RESORT,
        changes={"most_iterations": 65535},
        why="A software rasteriser, an order of magnitude behind any CPU runtime. Mesa 22.3.6: a "
        "loop over 200,000 sums 65,535 of them and goes on, two nested ones of 300 as many, so a "
        "launch with more is refused. Later versions were not tried.",
    ),
    Quirk(
        match={"platform_name": r"^rusticl$"},
        changes={"widens_by_parts": True, "selects_bytes": True},
        why="Mesa 22.3.6: of a long that was an int, x >= 2 holds for each value and x < 0 for "
        "none, so that where, clamp and sign of such numbers were wrong, and where(mask, 0, 1) of "
        "vectors; a ? b : c of 8 bits gives 0 for a constant c, or ends the compiler. With "
        "upsample() in place of the conversion, and select(), they are right. Later versions were "
        "not tried.",
    ),
    Quirk(
        match={"name": r"^Oclgrind"},
        short="oclgrind",
        preference=LAST_RESORT + 1,
        changes={
            "opencl_c_version": (1, 2),
            "build_options": ("-cl-std=CL1.2", "-cl-opt-disable"),
            "chains": False,
        },
        why="A simulator that interprets kernels to find invalid accesses; reports itself as every "
        "kind of device at once, so without this it would be taken for a GPU. Its compiler refuses "
        '-cl-std=CL3.0 ("cl_khr_fp64 and __opencl_c_fp64 are set to different values"). '
        "build_options: optimised, the smaller of 0 and 1 is 254 (llvm.smin of vectors that it "
        "made narrow). chains: functions inlined into a kernel leave "
        "llvm.experimental.noalias.scope.decl, which it does not know: INVALID_KERNEL_NAME.",
    ),
)


def changes(names: Names) -> dict[str, Any]:
    """What the quirks replace in the DeviceInfo of this device; later entries win."""
    return _merged(q.changes for q in in_force(names))


def in_force(names: Names) -> tuple[Quirk, ...]:
    """The entries that match this device."""
    return tuple(q for q in QUIRKS if q.matches(names))


def inline_device(names: Names) -> InlineDevice | None:
    """How to make the driver list this device a second time, for the calling thread."""
    return next((q.inline_device for q in in_force(names) if q.inline_device is not None), None)


def cpu_name_overrides(names: Names) -> tuple[CpuNameOverride, ...]:
    """The processors that this driver does not know."""
    return tuple(q.cpu_name_override for q in in_force(names) if q.cpu_name_override is not None)


def cpu_targets(names: Names) -> CpuTargets | None:
    """How to set the target of this driver's compiler."""
    return next((q.cpu_targets for q in in_force(names) if q.cpu_targets is not None), None)


def cpu_target_variables() -> dict[str, Mapping[str, str]]:
    """Variables that set the target, with their values by instruction set."""
    found = (q.cpu_targets for q in QUIRKS if q.cpu_targets is not None)
    return {t.variable: t.names for t in found if t.variable}


def compiling(names: Names) -> dict[str, str]:
    """Variables for processes that compile; a user's own values take precedence."""
    return _merged(q.compiling for q in in_force(names))


def unused_variant(names: Names) -> UnusedVariant | None:
    """The variant that compile workers skip."""
    return next((q.unused_variant for q in in_force(names) if q.unused_variant is not None), None)


def _merged(entries: Iterable[Mapping[str, _Value]]) -> dict[str, _Value]:
    return {name: value for entry in entries for name, value in entry.items()}


def preference(names: Names) -> int:
    """Order among devices of one kind, lower first; later entries win."""
    found = [q.preference for q in in_force(names) if q.preference is not None]
    return found[-1] if found else DEFAULT_PREFERENCE


def short_name(names: Names) -> str:
    """The driver's short name, e.g. ``pocl-3.0``; without an entry, its platform's name."""
    for quirk in in_force(names):
        if quirk.short:
            return quirk.short_name(names)
    return names.platform_name.lower()
