"""A part of ``make gpu-check``: three cases through every offline compiler that is installed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from gpu_check.cases import CASES, Case
from gpu_check.check import check, compile_all, sources_of
from gpu_check.compilers import COMPILERS
from gpu_check.emit import emitted
from gpu_check.ratchet import Ratchet, complaints, read_ratchet
from gpu_check.targets import DEVICES, Device
from ocl_inductor.device.described import find_target
from ocl_inductor.plan.kernel_code import KernelCode
from ocl_inductor.plan.plan import Plan

SAMPLE = [c for c in CASES if c.name in ("mm-1024", "conv-3x3-training", "softmax")]
assert len(SAMPLE) == 3


@cache
def plans_of(case: Case, target: str) -> list[Plan]:
    return emitted(case, target)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_nothing_is_worse_than_on_record(device: Device) -> None:
    compiler = COMPILERS[device.compiler](device.name)
    if compiler.missing():
        pytest.skip(compiler.missing())
    now = Ratchet({device.name: compiler.version})
    for case in SAMPLE:
        plans = plans_of(case, device.target)
        code = compile_all(sources_of(plans), device, compiler, map)
        found = check(case, plans, device, compiler, code)
        assert not found.problems
        now.rows[device.name, case.name] = found.figures
    assert list(complaints(now, read_ratchet())) == []


def test_a_kernel_that_asks_too_much_is_refused(tmp_path: Path) -> None:
    """What the language of a device lacks, the compiler that stands for its own refuses."""
    compiler = COMPILERS["portable"]("mali-t860")
    if compiler.missing():
        pytest.skip(compiler.missing())
    path, target = tmp_path / "k.cl", find_target("mali-t860")
    assert target is not None

    def words(statement: str, name: str) -> str:
        path.write_text(f"__kernel void k(__global float *a, int n) {{ {statement} }}")
        (tmp_path / name).mkdir()
        return compiler.compile(path, target, tmp_path / name).failure

    assert words("a[get_global_id(0)] = fma(a[0], 2.0f, 1.0f);", "plain") == ""
    assert "sub_group_reduce_add" in words("a[0] = sub_group_reduce_add(a[1]);", "groups")
    assert "work_group_reduce_add" in words("a[0] = work_group_reduce_add(a[1]);", "second")
    assert "atomic" in words("atomic_fetch_add((volatile atomic_int *)a, n);", "atomics")


def test_emission_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from ocl_inductor.runtime.call import executor

    monkeypatch.delattr(executor.Executor, "__call__")
    plans = emitted(SAMPLE[1], "rx-6800")
    assert len(plans) == 2  # forward, backward
    assert all(p.kernels for p in plans)
    assert all(type(n) is int for p in plans for s in p.steps for n in s.global_size)
    torch.compiler.reset()


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_a_worse_kernel_is_found(device: Device) -> None:
    """The product without fused multiply-adds, and with a word that no language has."""
    compiler = COMPILERS[device.compiler](device.name)
    if compiler.missing():
        pytest.skip(compiler.missing())
    case = SAMPLE[0]
    judged = compiler.isa and compiler.version == read_ratchet().compilers[device.name]
    for old, new, figure in (
        ("FP_CONTRACT ON", "FP_CONTRACT OFF", "fma" if judged else ""),
        ("get_local_id(1)", "no_such_function(1)", "failures 0 -> 1"),
    ):
        plans = [changed(p, old, new) for p in plans_of(case, device.target)]
        code = compile_all(sources_of(plans), device, compiler, map)
        found = check(case, plans, device, compiler, code)
        now = Ratchet(
            {device.name: compiler.version}, {}, {(device.name, case.name): found.figures}
        )
        said = "\n".join(complaints(now, read_ratchet()))
        assert figure in said if figure else not said


def changed(plan: Plan, old: str, new: str) -> Plan:
    """The plan with ``new`` for ``old`` in its product; a kernel that adds up parts may lack it."""
    assert any(old in k.source for k in plan.kernels)

    def with_new(code: KernelCode) -> KernelCode:
        own = (replace(d, text=d.text.replace(old, new)) for d in code.definitions)
        return replace(code, definitions=tuple(own), body=code.body.replace(old, new))

    kernels = (replace(k, code=with_new(k.code)) for k in plan.kernels)
    return replace(plan, kernels=tuple(kernels))
