"""The facts about a device that codegen and runtime use.

Plain data: picklable, without an OpenCL handle.
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from ocl_inductor.device import described, quirks
from ocl_inductor.device.cpu.caches import Caches, cpu_caches
from ocl_inductor.device.cpu.compile_target import CompileTarget
from ocl_inductor.device.cpu.core_costs import CoreCosts
from ocl_inductor.device.driver import cpu_name_override
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.driver.questions import ask, kind_of, names_of
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.settings import Settings

# CL_DEVICE_SUB_GROUP_SIZES of cl_intel_required_subgroup_size.
_SUB_GROUP_SIZES = 0x4108
# Of the extension cl_intel_vec_len_hint.
_ONE_LANE = "intel_vec_len_hint(1)"

_EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
#: ``CL_DEVICE_SVM_COARSE_GRAIN_BUFFER``.
_COARSE_GRAIN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """Facts of one device under one driver. Sizes in bytes, widths in float32 lanes.

    A default is what holds of a device unless its driver, a quirk or a test says otherwise, and of
    described devices, which do not inherit such a fact from the driver that stands in for them.
    """

    platform_name: str
    platform_version: str
    name: str
    vendor: str
    driver_version: str
    device_version: str
    opencl_c_version: tuple[int, int]
    kind: str  # cpu, gpu or accelerator
    profile: str  # vector or simt: the form of code for it
    unified_memory: bool  # host and device share one memory
    zero_copy: bool  # USE_HOST_PTR at any 4-byte offset works in place (self-tested)
    vector_width: int  # float32 lanes of the hardware's vector; 1 for simt
    compute_units: int
    max_work_group_size: int
    local_mem_bytes: int
    global_mem_bytes: int
    max_alloc_bytes: int
    base_address_align_bytes: int  # alignment of a sub-buffer's offset
    max_parameter_bytes: int
    caches: Caches = Caches()  # of a CPU; for other devices, defaults from measured ones
    sub_group_sizes: tuple[int, ...]  # empty: not known, or no sub-groups
    extensions: frozenset[str]
    fp16: bool
    fp64: bool
    fast_fma: bool  # builtin fma() is one instruction
    target_fma: bool  # on CPUs: its compiler's target has fused multiply-add
    prefetch: bool = False  # __builtin_prefetch(address) is one instruction
    inline_assembly: bool = False  # its compiler takes __asm__ statements
    names_registers: bool = False  # and with clobber lists of the processor's registers
    streaming: bool = False  # __builtin_nontemporal_store(value, address) bypasses the caches
    vectorizes_sums: bool = True  # its compiler may vectorise a scalar loop that sums
    amx: bool = False  # inline assembly can use the CPU's matrix unit (self-tested)
    bf16_dot: bool = False  # the same for its dot products of bfloat16 (self-tested)
    int8_dot: bool = False  # and of bytes
    #: A GPU's matrix instructions: by ptx (self-tested), emulated, or empty: not at all.
    mma: str = ""
    #: A kernel may call other kernels' code (codegen/launches/serial_kernel.py).
    chains: bool = False
    #: Work-items of a launch may wait for others that run (codegen/launches/team_kernel.py).
    teams: bool = False
    launch_s: float = 0.0  # extra cost of a launch, and of a wait, over the calling thread
    wait_s: float = 0.0
    slow_builtins: frozenset[str] = frozenset()  # codegen emits its own versions of these
    broken_builtins: frozenset[str]  # its compiler fails on these for vectors (builtin_check.py)
    build_options: tuple[str, ...]
    one_lane_attribute: str = ""  # of kernels: they are not to be vectorised over work-items
    pinned_staging: bool  # large transfers are faster through pinned memory
    shared_memory: bool  # coarse-grained shared virtual memory: device memory has addresses
    widens_by_parts: bool = False  # its compiler compares integers converted to 64 bits wrongly
    #: Its compiler is correct for select() of 8-bit integers, not for a ? b : c.
    selects_bytes: bool = False
    #: Its loops end, without an error, after so many rounds of a work-item; 0: they do not.
    most_iterations: int = 0
    library_of_processor: bool = False  # its library is built for the processor, not for its target
    #: Overlapping sub-buffers are slow: blocks of scratch memory are buffers.
    separate_scratch: bool = False
    #: Kernels only call a function with their code (plan/one_item.py).
    outlined_code: bool = False
    core: CoreCosts = CoreCosts()  # of a CPU

    @property
    def outlined_vector_bits(self) -> int:
        """Bits of a vector in kernels whose code is a separate function; 0 where it is not."""
        return 32 * self.vector_width if self.outlined_code else 0

    @property
    def aligned_buffers(self) -> bool:
        """Whether every buffer is aligned for vectors: the device's own memory, and not that of a
        tensor, which may be a part of another one.
        """
        return not (self.unified_memory and self.zero_copy)

    @property
    def architecture(self) -> str:
        """What its code is made of, for tuned values: vectors of so many bits (``vector-512``), or
        work-items, with matrix instructions or without (``simt-mma``, ``simt``)."""
        if self.profile == "vector":
            return f"vector-{32 * self.vector_width}"
        return "simt-mma" if self.mma else "simt"

    @property
    def key(self) -> str:
        """What a kernel binary depends on, for cache keys.

        Device version and width are included because virtual machines report one CPU name for CPUs
        with different instruction sets.
        """
        return "|".join(
            (
                self.name,
                self.driver_version,
                self.platform_version,
                self.device_version,
                f"w{self.vector_width}" if self.target_fma else f"w{self.vector_width} without fma",
            )
        )

    @classmethod
    def from_pyopencl(cls, device: Any) -> DeviceInfo:
        """Query the driver, then apply the quirks. ``zero_copy`` is False until it was tested."""
        kind = kind_of(device)
        extensions = frozenset(device.extensions.split())
        native_width = int(ask(device, "native_vector_width_float", 1))
        # A CPU driver with a native width of one spreads work-items over lanes, as GPUs do.
        profile = "vector" if kind == "cpu" and native_width > 1 else "simt"
        version = _opencl_c_version(device)
        names = names_of(device)
        info = cls(
            platform_name=names.platform_name,
            platform_version=names.platform_version,
            name=names.name,
            vendor=names.vendor,
            driver_version=names.driver_version,
            device_version=cpu_name_override.device_version(device),
            opencl_c_version=version,
            kind=kind,
            profile=profile,
            unified_memory=bool(ask(device, "host_unified_memory", kind == "cpu")),
            zero_copy=False,
            vector_width=_vector_width(profile, native_width),
            compute_units=int(device.max_compute_units),
            max_work_group_size=int(device.max_work_group_size),
            local_mem_bytes=int(device.local_mem_size),
            global_mem_bytes=int(device.global_mem_size),
            max_alloc_bytes=int(device.max_mem_alloc_size),
            base_address_align_bytes=int(device.mem_base_addr_align) // 8,  # reported in bits
            max_parameter_bytes=int(device.max_parameter_size),
            caches=cpu_caches() if kind == "cpu" else Caches(),
            sub_group_sizes=_sub_group_sizes(device, extensions),
            extensions=extensions,
            fp16="cl_khr_fp16" in extensions,
            fp64="cl_khr_fp64" in extensions or bool(ask(device, "double_fp_config", 0)),
            # CPU drivers do not all set the FMA bit although they have it.
            fast_fma=kind == "cpu" or _reports_fma(device),
            target_fma=True,
            chains=kind == "cpu",
            broken_builtins=frozenset(),
            build_options=_build_options(device, version, kind),
            one_lane_attribute=_ONE_LANE if "cl_intel_vec_len_hint" in extensions else "",
            pinned_staging=kind != "cpu" and not ask(device, "host_unified_memory", False),
            shared_memory=bool(ask(device, "svm_capabilities", 0) & _COARSE_GRAIN),
        )
        return dataclasses.replace(info, **quirks.changes(names))

    def compiled_for(self, target: CompileTarget | None) -> DeviceInfo:
        """The facts of a CPU whose compiler targets ``target``; None: not known."""
        if target is None:
            return self
        lanes = min(self.vector_width, target.lanes)
        if self.library_of_processor and target.lanes < self.vector_width:
            # A function gets arguments wider than the target's registers in several of them, or in
            # memory: vectors of 64-bit numbers have to fit, too.
            lanes //= 2
        return dataclasses.replace(
            self,
            vector_width=lanes,
            target_fma=target.fma,
            fast_fma=self.fast_fma and target.fma,
        )

    def for_settings(self, settings: Settings) -> DeviceInfo:
        """The facts with forced ones in place of the device's own: of a described target, the
        profile, the memory strategy.

        Raises OpenCLInductorError where kernels for the target cannot run on this device.
        """
        if settings.target is not None:
            described = self._described(settings.target)
            return described.for_settings(dataclasses.replace(settings, target=None))
        changed: dict[str, Any] = {}
        if settings.profile not in ("auto", self.profile):
            changed["profile"] = settings.profile
            changed["vector_width"] = _vector_width(settings.profile, self.vector_width)
        if settings.memory in ("discrete", "buffers"):
            changed.update(unified_memory=False, zero_copy=False)
        elif settings.memory == "unified":
            changed["unified_memory"] = True
        if not settings.matrix_unit or changed.get("profile", self.profile) != "vector":
            changed["amx"] = False
        if changed.get("profile", self.profile) != "vector":
            changed.update(bf16_dot=False, int8_dot=False)
        if not settings.matrix_unit or changed.get("profile", self.profile) != "simt":
            changed["mma"] = ""
        return dataclasses.replace(self, **changed) if changed else self

    def _described(self, target: described.DescribedTarget) -> DeviceInfo:
        """The facts of an absent GPU, for kernels that this device's driver builds."""
        for what, has, needs in (
            ("work-items in a group", self.max_work_group_size, target.max_work_group_size),
            ("bytes of local memory", self.local_mem_bytes, target.local_memory),
        ):
            if has < needs:
                raise OpenCLInductorError(
                    f"Kernels for {target.name} may need {needs} {what}; {self.name} has {has}. "
                    'Choose another device to run them on: options={"device": ...}.'
                )
        return dataclasses.replace(
            self,
            name=target.name,
            vendor=target.description,  # it begins with the maker
            kind="gpu",
            profile="simt",
            unified_memory=target.unified_memory,
            zero_copy=target.unified_memory and self.zero_copy,
            pinned_staging=not target.unified_memory,
            vector_width=1,
            compute_units=target.compute_units,
            max_work_group_size=target.max_work_group_size,
            local_mem_bytes=target.local_memory,
            sub_group_sizes=target.sub_group_sizes,
            fp16=target.fp16,
            fp64=target.fp64 and self.fp64,
            opencl_c_version=target.opencl_c,
            **{**_defaults(), "mma": (self.mma or "emulated") if target.mma else ""},
        )


def _defaults() -> dict[str, Any]:
    """The facts that have a default."""
    found = dataclasses.fields(DeviceInfo)
    return {f.name: f.default for f in found if f.default is not dataclasses.MISSING}


def _vector_width(profile: str, native: int) -> int:
    if profile == "simt":
        return 1
    return native if native in (4, 8, 16) else 4


def _opencl_c_version(device: Any) -> tuple[int, int]:
    """The highest OpenCL C version up to 3.0 that the device compiles."""
    versions = [
        (int(v.version) >> 22, (int(v.version) >> 12) & 0x3FF)
        for v in ask(device, "opencl_c_all_versions", ())
    ]
    found = re.search(r"(\d+)\.(\d+)", device.opencl_c_version)
    if found is not None:
        versions.append((int(found.group(1)), int(found.group(2))))
    return max((v for v in versions if v <= (3, 0)), default=(1, 2))


def _reports_fma(device: object) -> bool:
    return bool(ask(device, "single_fp_config", 0) & load_pyopencl().device_fp_config.FMA)


def _build_options(device: object, version: tuple[int, int], kind: str) -> tuple[str, ...]:
    """The language's version; on GPUs divisions and square roots as IEEE 754 and PyTorch have them.

    OpenCL C allows them an error of 2.5 and 3 units: on an H200 1.8 % of quotients differed from
    CUDA's. The drivers of CPUs were exact without the option.
    """
    exact = load_pyopencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    rounded = kind != "cpu" and ask(device, "single_fp_config", 0) & exact
    return (f"-cl-std=CL{version[0]}.{version[1]}", *((_EXACT_DIVISION,) if rounded else ()))


def _sub_group_sizes(device: object, extensions: frozenset[str]) -> tuple[int, ...]:
    if "cl_intel_required_subgroup_size" in extensions:
        return _required_sub_group_sizes(device)
    for attribute in ("warp_size_nv", "wavefront_width_amd"):
        size = int(ask(device, attribute, 0) or 0)
        if size:
            return (size,)
    return ()


def _required_sub_group_sizes(device: Any) -> tuple[int, ...]:
    # pyopencl refuses queries without a name; the loader it links to accepts them.
    from pyopencl import _cl

    question = ctypes.CDLL(_cl.__file__).clGetDeviceInfo
    sizes, used = (ctypes.c_size_t * 16)(), ctypes.c_size_t()
    code = question(
        ctypes.c_void_p(device.int_ptr),
        ctypes.c_uint(_SUB_GROUP_SIZES),
        ctypes.c_size_t(ctypes.sizeof(sizes)),
        sizes,
        ctypes.byref(used),
    )
    return tuple(sizes[: used.value // ctypes.sizeof(ctypes.c_size_t)]) if code == 0 else ()
