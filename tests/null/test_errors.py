"""Errors: what the messages say, and that they pickle."""

from __future__ import annotations

import pickle

import pytest

from ocl_inductor import errors

CASES = [
    (errors.NoDeviceError(), ['pip install "ocl-inductor[cpu]"']),
    (
        errors.DeviceNotFoundError("gpu:3", ["a (cpu)", "b (cpu)"]),
        ["'gpu:3'", "a (cpu)", "b (cpu)"],
    ),
    (errors.DriverChangedError("a (cpu)"), ["a (cpu)", "ocl-inductor devices"]),
    (
        errors.DriverNotOpenedError("/lib/libintelocl.so", "undefined symbol", ["/b/libtbb.so.12"]),
        ["/lib/libintelocl.so", "undefined symbol", "/b/libtbb.so.12", "select_device()"],
    ),
    (
        errors.NoSuchPlaceError(3, ["a GPU", "a CPU"]),
        ["ocl:3", "ocl:1 is a CPU", "OCL_INDUCTOR_DEVICE", "ocl-inductor devices"],
    ),
    (errors.PlaceTakenError("a (cpu)", "b (gpu)"), ["a (cpu)", "b (gpu)", "before the first"]),
    (errors.OtherDeviceError("pocl", "a (cpu)"), ["'pocl'", "a (cpu)", "move the tensors"]),
    (errors.NotStridedError("Sparse", "aten.mm.default"), ["Sparse", "aten.mm", "to_dense"]),
    (errors.UnsupportedCollectiveError("ring_"), ["c10d::ring_", "CPU tensors", "docs/ocl.md"]),
    (
        errors.MixedCollectiveError("allreduce_", ["ocl:0", "cpu"]),
        ["c10d::allreduce_", "ocl:0, cpu", "same device"],
    ),
    (errors.NoHostGroupError(["ocl"]), ["only for ocl", "init_process_group()"]),
    (errors.FreedStorageError((2, 3)), ["[2, 3]", "freed", "unshard()"]),
    (errors.ForeignBackendError("npu"), ["'npu'", "PrivateUse1"]),
    (errors.CallLineError("neg(3)", "no JSON"), ["neg(3)", "no JSON", "--export"]),
    (errors.UnsupportedMinifierError(), ["TORCHDYNAMO_REPRO_AFTER=dynamo", "Inductor"]),
    (errors.UnsupportedLayoutError([2, 3]), ["[2, 3]", "x.to_dense()"]),
    (errors.ForkedProcessError(), ["spawn", "forked"]),
    (errors.DeviceFailedError("a (gpu)", "clFinish failed"), ["a (gpu)", "clFinish", "doctor"]),
    (errors.LoopLimitError("a (cpu)", 9000, 100), ["a (cpu)", "9,000", "100", "dynamic=False"]),
    (
        errors.RequiredPatchError("fork_hooks", "children hang", "OCL_INDUCTOR_PATCHES_OFF"),
        ["'fork_hooks'", "children hang", "OCL_INDUCTOR_PATCHES_OFF", "docs/patches.md"],
    ),
    (errors.UnknownOptionError("option", "fallbak", ["device", "fallback"]), ["Did you mean"]),
    (
        errors.UnsupportedOperatorError(
            "aten.foo.default", ["float32"], [(2, 3)], "model.py:12 in forward", "no lowering"
        ),
        ["aten.foo.default(float32[2, 3])", "model.py:12", "OCL_INDUCTOR_FALLBACK=warn"],
    ),
    (
        errors.HostResultError("mylib.count", "torch.int64 [3]", "torch.int64 [0]"),
        ["mylib.count", "[3]", "[0]", "torch.compiler.disable"],
    ),
    (errors.HiddenLayoutError("model.py:3 in forward"), ["model.py:3", "x.clone()"]),
    (
        errors.KernelBuildError("k0", "error: expected ';'", "/tmp/k0.cl", ["add", "mul"]),
        ["'k0'", "expected ';'", "/tmp/k0.cl", "add, mul"],
    ),
    (
        errors.CompilerFailedError("k0", "the driver's compiler crashed: SIGABRT", "", ["add"]),
        ["'k0'", "SIGABRT"],
    ),
    (errors.DeviceMemoryError(4096, 1 << 20, 100), ["4,096 bytes", "1,048,576", "100 bytes"]),
    (errors.NoLazyModeError("2.11.0"), ["2.11.0", "torch.ocl.lazy"]),
    (errors.NotComputedError("index 7 is out"), ["not computed", "index 7 is out"]),
    (
        errors.IndexOutOfRangeError("aten.gather", 12, 1, 10, "model.py:3 in forward"),
        ["index 12", "dimension 1 with size 10", "aten.gather", "model.py:3"],
    ),
    (
        errors.IntegerDivisionError("aten.remainder", "model.py:3 in forward"),
        ["ZeroDivisionError", "aten.remainder", "model.py:3"],
    ),
    (
        errors.RefusedValueError("probabilities are negative", "model.py:3 in forward"),
        ["probabilities are negative", "model.py:3"],
    ),
    (errors.VerifyError("schedule", "node 3 before its input"), ["'schedule'", "node 3"]),
]


@pytest.mark.parametrize(("error", "parts"), CASES, ids=lambda v: type(v).__name__)
def test_message_and_pickle(error: errors.OpenCLInductorError, parts: list[str]) -> None:
    for part in parts:
        assert part in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.facts) == (str(error), error.facts)
    assert isinstance(error, RuntimeError)


def test_all_errors_are_covered() -> None:
    defined = {
        c
        for c in vars(errors).values()
        if isinstance(c, type) and issubclass(c, errors.OpenCLInductorError)
    }
    assert defined - {type(e) for e, _ in CASES} == {errors.OpenCLInductorError}
