"""The table of patches: what each changes, why, what it brings, and whether it can be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_OURS = "ocl_inductor.patches"


@dataclass(frozen=True, slots=True)
class Patch:
    """One change to PyTorch, pyopencl or the process.

    name: what the switch calls it; that of its file, where it lies in a folder beside this one.
    of: what it changes.
    what: the change itself, and for how long.
    why: the gain that was measured, or the fault that it prevents.
    tried: versions of what it changes with which it was run.
    apply: the function that applies it, ``module:function``.
    required: why it cannot be switched off; None where it can.
    """

    name: str
    of: Literal["process", "pyopencl", "PyTorch"]
    what: str
    why: str
    tried: str
    apply: str
    required: str | None = None


_LINUX = "Linux 6.18, glibc 2.36"
_PYTHON = "Python 3.11"
_PYOPENCL = "pyopencl 2026.1"
#: Of docs/versions.md.
_TORCH = "PyTorch 2.11 to 2.14"
_TORCH_OF_OCL = "PyTorch 2.13"

_PROCESS = (
    Patch(
        "switch_interval",
        "process",
        "`sys.setswitchinterval` is 0.2 ms instead of 5 ms while a stored plan is made ready in a "
        "thread beside Dynamo.",
        "A driver that is called a hundred times waits at each return for a turn: half a second "
        "of a warm start.",
        _PYTHON,
        f"{_OURS}.process.switch_interval:short_turns",
    ),
    Patch(
        "garbage_collector",
        "process",
        "`gc.freeze` when Dynamo begins to compile and `gc.unfreeze` when it ends, unless the "
        "program freezes objects itself.",
        "0.2 s of a first call: the collector looks at a million objects of PyTorch's imports once "
        "or twice.",
        f"{_PYTHON}, {_TORCH}",
        f"{_OURS}.process.garbage_collector:leave_old_objects_alone",
    ),
    Patch(
        "malloc_trim",
        "process",
        "glibc gives freed memory back to the system after kernels were built, and when large "
        "tensors moved.",
        "25 MiB of resident memory after the 55 kernels of mobilenet_v2.",
        _LINUX,
        f"{_OURS}.process.malloc_trim:give_back_freed",
    ),
    Patch(
        "driver_code_pages",
        "process",
        "`madvise(MADV_DONTNEED)` on unwritten pages of drivers' libraries after they were opened "
        "and after programs were built.",
        "50 MiB of the 75 that a driver's compiler keeps resident.",
        _LINUX,
        f"{_OURS}.process.driver_code_pages:drop_pages",
    ),
    Patch(
        "cpu_name",
        "process",
        "Through `/proc/self/mem` the name of the processor in a driver's description of a device "
        "becomes that of an older relative, where a quirk of the driver asks for it.",
        "A driver whose LLVM is older than the processor builds no program at all.",
        f"{_LINUX}, the driver of `CpuNameOverride` in device/quirks.py",
        f"{_OURS}.process.cpu_name:overwrite_text",
    ),
    Patch(
        "driver_environment",
        "process",
        "Variables of the OpenCL loader and of drivers are in the environment while these are "
        "opened. What OCL_INDUCTOR_CPU_TARGET asks for stays there.",
        "Drivers read such variables when they are opened and at no other time.",
        f"{_PYTHON}, {_PYOPENCL}",
        f"{_OURS}.process.driver_environment:variables_set",
        required="the OpenCL loader would open every driver a second time beside ours, and drivers "
        "that come with a wheel would not be found",
    ),
    Patch(
        "amx_permission",
        "process",
        "`arch_prctl` asks Linux for the registers of the matrix unit (AMX), 8 KiB a thread, for "
        "the rest of the process.",
        "A product of 512×768×768 in float32 takes 1.05 ms by the unit and 1.87 ms by vectors. "
        "Without the registers a kernel that uses it would end the process, so none does.",
        _LINUX,
        f"{_OURS}.process.amx_permission:request",
    ),
    Patch(
        "written_pages",
        "process",
        "`userfaultfd` watches the pages of parameters that were packed.",
        "A look at memory that was not written takes 2 µs and 0.3 µs more for each MiB. Without "
        "it checksums go round: a write that PyTorch does not see may be noticed some calls late, "
        "as on other systems.",
        "Linux 6.18 (6.7 is needed)",
        f"{_OURS}.process.written_pages:written_pages",
    ),
    Patch(
        "quiet_logging",
        "process",
        "`logging.raiseExceptions` is off while the number of fallbacks is logged at the end of "
        "the process.",
        "A traceback as a program's last words, where the log's file is closed by then.",
        _PYTHON,
        f"{_OURS}.process.quiet_logging:without_errors",
    ),
    Patch(
        "process_hooks",
        "process",
        "`os.register_at_fork` and `atexit.register`, once each for what has to be forgotten in a "
        "child, and freed before the driver ends.",
        "A forked child has the parent's handles without the driver's threads; memory that is "
        "freed after the driver's end ends the process with a fault.",
        _PYTHON,
        f"{_OURS}.process.process_hooks:after_fork_in_child",
        required="kernels in a forked child would hang or run on a broken pool of threads",
    ),
)

_LIBRARY = (
    Patch(
        "pyopencl_platforms",
        "pyopencl",
        "`pyopencl.get_platforms` lists the drivers that we open ourselves.",
        "A program that uses pyopencl beside us would find no platform, since the loader that "
        "pyopencl brings finds none (one driver opened costs 100 MiB and a third of a second).",
        _PYOPENCL,
        f"{_OURS}.pyopencl.pyopencl_platforms:list_with",
    ),
    Patch(
        "pyopencl_invokers",
        "pyopencl",
        "`pyopencl.invoker.invoker_cache` is a dictionary instead of a database on the disk, with "
        "one entry for all kernels with the same arguments.",
        "A full disk, or a user without a home, is an error at each kernel; 0.6 ms for each "
        "kernel's name.",
        _PYOPENCL,
        f"{_OURS}.pyopencl.pyopencl_invokers:keep_in_memory",
    ),
    Patch(
        "pyopencl_warnings",
        "pyopencl",
        "Warnings of the category `pyopencl.CompilerWarning` are ignored.",
        "Each build log that is not empty would be printed; errors carry the log anyway.",
        _PYOPENCL,
        f"{_OURS}.pyopencl.pyopencl_warnings:ignore_build_logs",
    ),
)

_PYTORCH = (
    Patch(
        "plan_cache",
        "PyTorch",
        "`AOTAutogradCache._write_to_local_cache` and `.iterate_over_candidates` use our folder "
        "while one of our graphs is compiled.",
        "A second process finds its plans: 1.8 s instead of a whole compilation for ResNet-50.",
        _TORCH,
        f"{_OURS}.pytorch.plan_cache:redirect",
    ),
    Patch(
        "plan_cache_keys",
        "PyTorch",
        "`AOTAutogradCachePickler` writes dtypes, layouts and memory formats by name while one of "
        "our graphs is compiled.",
        "It writes `torch.strided` as an attribute of whichever module imported torch first: keys "
        "would depend on the order of imports, and plans would not be found.",
        _TORCH,
        f"{_OURS}.pytorch.plan_cache_keys:name_constants",
    ),
    Patch(
        "inductor_passes",
        "PyTorch",
        "`codecache.init_backend_registration` does nothing, and the passes of Inductor's back "
        "ends are left out of keys, while one of our graphs is compiled.",
        "To list them imports all of Inductor's code generation: 0.6 s of a warm start of 3 s.",
        "PyTorch 2.13 and 2.14; 2.11 and 2.12 list nothing",
        f"{_OURS}.pytorch.inductor_passes:leave_out",
    ),
    Patch(
        "torch_digest",
        "PyTorch",
        "`torch_key.set` gives the digest of PyTorch's sources that an earlier process remembered.",
        "0.2 to 0.3 s of each warm start, in which PyTorch reads and hashes 2000 files.",
        _TORCH,
        f"{_OURS}.pytorch.torch_digest:give",
    ),
    Patch(
        "overlapping_gradients",
        "PyTorch",
        "`MemoryFormatMeta.from_tensor` expects dense gradients for results whose own elements "
        "overlap, while one of our graphs is traced.",
        "Gradients of windows over an intermediate result are wrong in every backend that uses "
        "AOTAutograd.",
        _TORCH,
        f"{_OURS}.pytorch.overlapping_gradients:dense_gradients",
        required="gradients of results whose elements overlap would be wrong",
    ),
    Patch(
        "autograd_kernels",
        "PyTorch",
        "Python kernels of some operators under the key Autograd are ours while one of our graphs "
        "is traced.",
        "PyTorch's own decompositions of them give wrong numbers or lose a gradient.",
        _TORCH,
        f"{_OURS}.pytorch.autograd_kernels:replaced",
        required="the replaced decompositions give wrong numbers",
    ),
    Patch(
        "autograd_config",
        "PyTorch",
        "`torch._functorch.config` while one of our graphs is traced: tokens of effects are made "
        "inside the graph, backward graphs are compiled with their forward where needed.",
        "Tokens would be inputs and results of graphs; the minifier calls backward() while Dynamo "
        "compiles.",
        _TORCH,
        f"{_OURS}.pytorch.autograd_config:tracing_config",
        required="plans have no inputs for the tokens that order operators with effects",
    ),
    Patch(
        "partitioner_operators",
        "PyTorch",
        "`partitioners.get_default_op_list` has the backward operators of ten activations more "
        "while one of our joint graphs is partitioned.",
        "The partitioner takes them for kernels of their own, for which everything they read has "
        "to be saved: 6.8 MiB instead of 4.8 for four convolutions with batch normalisation and "
        "hardswish (8×16×32×32).",
        _TORCH,
        f"{_OURS}.pytorch.partitioner_operators:known_as_pointwise",
    ),
    Patch(
        "impure_operators",
        "PyTorch",
        "`aten._linalg_check_errors` counts as an operator with effects (`torch.fx.node."
        "has_side_effect`), from the first compilation on.",
        "PyTorch 2.11 takes it for dead code: `torch.linalg.cholesky` of a matrix that has no such "
        "factor gave numbers instead of its error.",
        _TORCH,
        f"{_OURS}.pytorch.impure_operators:keep_checks",
        required="errors of torch.linalg would be lost",
    ),
    Patch(
        "onednn_operators",
        "PyTorch",
        "oneDNN is off (`torch._C._set_mkldnn_enabled`) while one of our graphs is traced.",
        "With it `nn.LSTM` traces to one operator, whose gradient reads a workspace that only "
        "oneDNN's own kernel fills: training an LSTM ends the process.",
        _TORCH,
        f"{_OURS}.pytorch.onednn_operators:without_onednn",
        required="the gradient of an LSTM would read memory that is not there",
    ),
    Patch(
        "ctc_handlers",
        "PyTorch",
        "Dynamo's table of handlers has ours for the two functions `ctc_loss`, which act in graphs "
        "for this backend only.",
        "The graph breaks there: the loss and its gradient run in eager.",
        _TORCH,
        f"{_OURS}.pytorch.ctc_handlers:handle",
    ),
    Patch(
        "recurrent_modules",
        "PyTorch",
        "`VariableBuilder.wrap_module` takes `nn.LSTM`, `nn.GRU` and `nn.RNN` as if "
        "`torch._dynamo.config.allow_rnn` were set, in graphs for this backend only, and Dynamo's "
        "table of handlers has ours for their functions.",
        "The graph breaks at these modules and they run in eager; with the switch alone they are "
        "unrolled over time.",
        _TORCH,
        f"{_OURS}.pytorch.recurrent_modules:trace_modules",
    ),
    Patch(
        "optimiser_steps",
        "PyTorch",
        "`register_optimizer_step_post_hook`: each step of an optimiser tells what was packed from "
        "its parameters.",
        "Fused optimisers write parameters without a new version.",
        _TORCH,
        f"{_OURS}.pytorch.optimiser_steps:after_each_step",
        required="where the system does not tell written pages, a step of a fused optimiser would "
        "be noticed late and old weights used",
    ),
    Patch(
        "observed_backend",
        "PyTorch",
        "The function that Dynamo has for `opencl` is one that records, and PyTorch's trace has a "
        "handler, while `explain` compiles.",
        "Otherwise graphs, breaks and recompilations are not seen.",
        _TORCH,
        f"{_OURS}.pytorch.observed_backend:observing",
        required="`explain` would have nothing to explain",
    ),
    Patch(
        "compile_times",
        "PyTorch",
        "Dynamo's callbacks note when it compiles, while a profile is taken.",
        "A profile would count the time of compiling as the program's own.",
        _TORCH,
        f"{_OURS}.pytorch.compile_times:noting",
    ),
    Patch(
        "ocl_modules",
        "PyTorch",
        "`nn.Module._apply` swaps parameters that move to the device `ocl` or away from it.",
        "Weights that two modules share would come apart, and an optimiser would go on with the "
        "old ones.",
        _TORCH_OF_OCL,
        "ocl_inductor.eager.interface.modules:keep_identity_of_parameters",
        required="optimisers would go on with parameters that the model has no more",
    ),
    Patch(
        "ocl_generators",
        "PyTorch",
        "`torch.Generator` is a subclass of PyTorch's, which makes generators for `ocl` as well.",
        '`torch.Generator("ocl")` wants one written in C++.',
        _TORCH_OF_OCL,
        "ocl_inductor.eager.interface.generators:make_generators_here",
        required="programs that name their device could not make a generator",
    ),
    Patch(
        "ocl_storages",
        "PyTorch",
        "`UntypedStorage.clone` copies storages of the device `ocl`, and `resize_` resizes them.",
        "`copy.deepcopy` of an `ocl` tensor, and FSDP, which frees parameters between two uses, "
        "want an allocator written in C++.",
        _TORCH_OF_OCL,
        "ocl_inductor.eager.interface.storages:copy_storages_here",
        required="tensors on `ocl` could not be copied, nor a model on it be sharded",
    ),
    Patch(
        "ocl_backward_thread",
        "PyTorch",
        "`torch.autograd` runs a backward pass on the calling thread where PyTorch has none for "
        "the device `ocl`.",
        "PyTorch ends such a pass with an internal assertion: on `ocl:1`, and where a backward "
        "pass ran before `ocl` was registered.",
        _TORCH_OF_OCL,
        "ocl_inductor.eager.interface.backward_thread:reach_every_device",
        required="nothing could be trained there",
    ),
    Patch(
        "ocl_lazy",
        "PyTorch",
        "`Tensor.data_ptr` and `Tensor.untyped_storage` compute what is recorded first, in "
        "`torch.ocl.lazy()`.",
        "They would return an address and a storage without memory.",
        _TORCH_OF_OCL,
        "ocl_inductor.eager.lazy.gates:open_gates",
        required="programs would read memory that is not there",
    ),
    Patch(
        "lazy_steps",
        "PyTorch",
        "A hook behind the step of every optimiser computes what is recorded, in "
        "`torch.ocl.lazy()`.",
        "A loop of training that asks for no number became four times as many graphs, which ended "
        "within its steps.",
        _TORCH_OF_OCL,
        f"{_OURS}.pytorch.lazy_steps:after_each_step",
    ),
)

PATCHES: tuple[Patch, ...] = _PROCESS + _LIBRARY + _PYTORCH


def patch_named(name: str) -> Patch | None:
    """The patch of that name."""
    return next((p for p in PATCHES if p.name == name), None)
