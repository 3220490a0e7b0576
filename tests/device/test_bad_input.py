"""What a user gets wrong, and what the backend cannot do: named errors, or a counted fallback."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters

from ocl_inductor import errors
from ocl_inductor.observe import fallback_log
from ocl_inductor.observe.fallback_log import FallbackLines
from ocl_inductor.runtime.build import kernel_builder

each_driver = pytest.mark.parametrize("driver", two_drivers())
one_driver = pytest.mark.parametrize("driver", two_drivers()[:1])


def failure(fn: Any, *args: Any, dynamic: bool = False, **options: Any) -> Exception:
    """The backend's own error when ``fn`` is compiled and called."""
    with pytest.raises((BackendCompilerFailed, errors.OpenCLInductorError)) as caught:
        torch.compile(fn, backend="opencl", dynamic=dynamic, options=options)(*args)
    error: Any = caught.value
    return getattr(error, "inner_exception", error)


# -- options -----------------------------------------------------------------------------------


def test_unknown_option() -> None:
    error = failure(torch.relu, random(3), fallbak="error")
    assert isinstance(error, errors.UnknownOptionError)
    assert "'fallbak'" in str(error)
    assert "Did you mean 'fallback'" in str(error)


def test_unknown_value() -> None:
    error = failure(torch.relu, random(3), fallback="never")
    assert isinstance(error, errors.UnknownOptionError)
    assert "warn, error" in str(error)


def test_unknown_mode() -> None:
    function = torch.compile(torch.relu, backend="opencl", mode="fastest")
    with pytest.raises(Exception, match="fastest"):
        function(random(3))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_known_modes(mode: str) -> None:
    function = torch.compile(lambda x: x.softmax(-1), backend="opencl", mode=mode)
    x = random(5, 7)
    torch.testing.assert_close(function(x), x.softmax(-1))


def test_minifier_of_inductor() -> None:
    torch.compiler.reset()
    with (
        torch._dynamo.config.patch(repro_after="aot"),
        pytest.raises(BackendCompilerFailed, match="TORCHDYNAMO_REPRO_AFTER=dynamo"),
    ):
        torch.compile(torch.sin, backend="opencl")(torch.ones(3))


def test_device_that_is_not_there() -> None:
    error = failure(torch.relu, random(3), device="no such driver")
    assert isinstance(error, errors.DeviceNotFoundError)
    for name in two_drivers():
        assert name in str(error)


def test_after_an_error_the_next_compilation_works() -> None:
    failure(torch.relu, random(3), device="no such driver")
    agree(torch.relu, random(3), device=two_drivers()[0])


# -- operators without a lowering --------------------------------------------------------------


def _svd(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.svd(x * 2)[1] + 1


def _spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.fft(x).abs() + x


@one_driver
def test_fallback_error_names_everything(driver: str) -> None:
    error = failure(_svd, random(5, 7), device=driver, fallback="error")
    assert isinstance(error, errors.UnsupportedOperatorError)
    text = str(error)
    assert "aten._linalg_svd" in text
    assert "float32[5, 7]" in text
    assert Path(__file__).name in text
    assert "torch.linalg.svd(x * 2)" in text
    assert 'options={"fallback": "warn"}' in text


@one_driver
def test_fallback_error_of_complex_numbers(driver: str) -> None:
    error = failure(_spectrum, random(5, 1009), device=driver, fallback="error")
    assert isinstance(error, errors.UnsupportedOperatorError)
    assert "aten._fft" in str(error)
    z = torch.randn(5, 8, dtype=torch.complex64)
    error = failure(lambda z: z.cumprod(0), z, device=driver, fallback="error")
    assert "complex64[5, 8]" in str(error)


@pytest.mark.filterwarnings("ignore:.*runs on the host")
@pytest.mark.parametrize("memory", ["unified", "discrete"])
@each_driver
def test_fallback_gives_right_results(memory: str, driver: str) -> None:
    agree(_svd, random(5, 7), device=driver, memory=memory, fallbacks=1, rtol=1e-4, atol=1e-4)
    counted = [k for k in counters["opencl"] if k.startswith("fallback: ")]
    assert len(counted) == 1
    assert "svd" in counted[0]


@each_driver
def test_an_operator_on_the_host_is_said_once(
    driver: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = FallbackLines()
    monkeypatch.setattr(fallback_log, "_lines", lines)

    def messages() -> list[str]:
        return [r.getMessage() for r in caplog.records if "runs on the host" in r.getMessage()]

    function = compiled(_svd, driver)
    function(random(5, 7))
    assert lines.summary() == ""  # the line said it all
    function(random(5, 7))
    for size in (3, 4):  # compiled again
        compiled(_svd, driver)(random(size, size))
    (message,) = messages()
    line = _svd.__code__.co_firstlineno + 1
    assert message.startswith("aten._linalg_svd.default runs on the host: no lowering")
    assert message.endswith(f"({__file__}:{line} in _svd)")
    assert "aten._linalg_svd.default 3. TORCH_LOGS=opencl_fallback" in lines.summary()
    # Whoever asks for more gets each, with the code, and no count.
    monkeypatch.setattr(fallback_log, "_lines", FallbackLines())
    with caplog.at_level(logging.DEBUG, fallback_log.fallback_log.name):
        for size in (5, 6):
            compiled(_svd, driver)(random(size, size))
    assert len(messages()) == 3 and "torch.linalg.svd(x * 2)" in messages()[-1]
    assert fallback_log._lines.summary() == ""


def test_the_count_comes_at_the_end_of_the_process() -> None:
    code = (
        "import torch\n"
        "for n in (3, 4):\n"
        "    torch.compiler.reset()\n"
        "    torch.compile(torch.linalg.svdvals, backend='opencl')(torch.randn(n, n))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    said = [x for x in done.stderr.splitlines() if "on the host" in x]
    assert len(said) == 2 and "aten._linalg_svd.default 2." in said[-1], done.stderr


@each_driver
def test_complex_numbers(driver: str) -> None:
    def fn(x: Any, z: Any) -> Any:
        y = torch.fft.rfft(x * 2)
        return y, y.abs() + 1, y.real * 2, z * z.conj(), torch.view_as_real(z) + 1, (z.imag * x)

    z = torch.randn(5, 8, dtype=torch.complex64)
    agree(fn, random(5, 8), z, device=driver, fallbacks=None, rtol=1e-4, atol=1e-4, reference=False)


@each_driver
def test_conjugate_and_negative_bits(driver: str) -> None:
    def fn(x: Any) -> Any:
        return x * 2

    z = torch.randn(5, dtype=torch.complex64)
    function = compiled(fn, driver)
    for x in (z.imag, z.conj().imag, z.real):
        torch.testing.assert_close(function(x), fn(x))


@each_driver
def test_sparse_inputs(driver: str) -> None:
    def fn(s: Any, x: Any) -> Any:
        return (s @ (x * 2)).relu() + 1

    s = (random(9, 7) * (torch.rand(9, 7) < 0.3)).to_sparse()
    x = random(7, 5)
    function = torch.compile(fn, backend="opencl", options={"device": driver})
    torch.testing.assert_close(function(s, x), fn(s, x), rtol=1e-4, atol=1e-4)


@each_driver
def test_quantised_tensors(driver: str) -> None:
    def fn(x: Any) -> Any:
        q = torch.quantize_per_tensor(x + 1, 0.1, 10, torch.quint8)
        return q.dequantize() * 2

    x = random(5, 7)
    function = torch.compile(fn, backend="opencl", options={"device": driver})
    torch.testing.assert_close(function(x), fn(x))


@each_driver
def test_results_of_data_dependent_size(driver: str) -> None:
    def fn(x: Any) -> Any:
        chosen = x[x > 0]
        return chosen.exp().sum(), (x > 0).nonzero() + 1

    for x in (random(9, 7), -torch.ones(9, 7)):
        function = torch.compile(fn, backend="opencl", options={"device": driver})
        for actual, expected in zip(function(x), fn(x), strict=True):
            torch.testing.assert_close(actual, expected)


@each_driver
def test_graph_breaks(driver: str) -> None:
    def fn(x: Any) -> Any:
        y = x.softmax(-1)
        if y.max().item() > 0.5:
            return y * 2
        return [y.numpy().sum(), y - 1]

    function = torch.compile(fn, backend="opencl", options={"device": driver})
    for x in (torch.zeros(5, 7), 10 * torch.eye(7)):
        actual, expected = function(x), fn(x)
        torch.testing.assert_close(torch.as_tensor(actual[-1]), torch.as_tensor(expected[-1]))


@one_driver
def test_graphs_of_odd_form(driver: str) -> None:
    """No outputs, no tensors, constants only, None among the results."""
    for fn in (
        lambda x: None,
        lambda x: (None, x + 1, 3, None),
        lambda x: torch.ones(3) * 2,
        lambda x: {"a": [x, {"b": x * 2}], "c": (x.shape[0], 2.5)},
        lambda x: x,
    ):
        function = torch.compile(fn, backend="opencl", options={"device": driver})
        x = random(5, 7)
        torch.testing.assert_close(function(x), fn(x))
        torch.compiler.reset()


@one_driver
def test_eager_errors_stay(driver: str) -> None:
    """Wrong shapes and positions raise what eager raises."""
    function = torch.compile(lambda x, y: x @ y, backend="opencl", options={"device": driver})
    with pytest.raises(Exception, match=r"cannot be multiplied|Fake|size mismatch"):
        function(random(3, 4), random(5, 6))


# -- drivers -----------------------------------------------------------------------------------


@each_driver
def test_kernel_that_does_not_build(
    driver: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ocl_inductor import compile as pipeline

    original = pipeline.build_plan

    def broken(*args: Any, **kwargs: Any) -> Any:
        import dataclasses

        plan = original(*args, **kwargs)
        kernels = tuple(
            dataclasses.replace(k, code=dataclasses.replace(k.code, body="nonsense;" + k.code.body))
            for k in plan.kernels
        )
        return dataclasses.replace(plan, kernels=kernels)

    monkeypatch.setattr(pipeline, "build_plan", broken)
    error = failure(lambda x: x.softmax(-1), random(5, 7), device=driver, cache_dir=str(tmp_path))
    assert isinstance(error, errors.KernelBuildError)
    assert "nonsense" in str(error)
    assert "softmax" in error.facts["nodes"][0]
    source = Path(error.facts["source_path"])
    assert "nonsense" in source.read_text()
    assert str(source) in str(error)
    monkeypatch.undo()
    torch.compiler.reset()
    agree(lambda x: x.softmax(-1), random(5, 7), device=driver, cache_dir=str(tmp_path))


@each_driver
def test_interrupted_compilation(
    driver: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    def fn(x: Any) -> Any:
        return x.softmax(-1), x.t() @ x

    monkeypatch.setattr(kernel_builder._KernelBuild, "build", interrupted)
    function = compiled(fn, driver, cache_dir=str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        function(random(5, 7))
    monkeypatch.undo()
    agree(fn, random(5, 7), device=driver, compiled_fn=function)
    assert not list(tmp_path.rglob("*.tmp"))


@one_driver
def test_interrupted_write_of_the_cache(
    driver: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    function = compiled(lambda x: x.softmax(-1), driver, cache_dir=str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        function(random(5, 7))
    monkeypatch.undo()
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "lock"]
    agree(lambda x: x.softmax(-1), random(5, 7), device=driver, compiled_fn=function)


def test_no_device_at_all(clean_env: dict[str, str], tmp_path: Path) -> None:
    """A process that finds no driver says so, and how to get one."""
    code = (
        "import torch, pyopencl\n"
        "pyopencl.get_platforms = lambda: []\n"
        "try:\n"
        "    torch.compile(torch.relu, backend='opencl')(torch.ones(3))\n"
        "except Exception as error:\n"
        "    print(type(getattr(error, 'inner_exception', error)).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_env, capture_output=True, text=True, timeout=240
    )
    assert "NoDeviceError" in done.stdout, done.stderr
    assert "pip install" in done.stdout


@one_driver
def test_error_in_a_module_keeps_the_module(driver: str) -> None:
    model = nn.Linear(7, 5)
    error = failure(
        lambda x: torch.linalg.svdvals(model(x)), random(3, 7), device=driver, fallback="error"
    )
    assert isinstance(error, errors.UnsupportedOperatorError)
    agree(model, random(3, 7), device=driver, reference=False)


# -- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["unified", "discrete"])
@each_driver
def test_more_memory_than_there_is(memory: str, driver: str) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return (a[:, None] * b).cumsum(1).softmax(0) @ c

    n = 1_000_000  # 4 TB for each of two intermediate results, 250 GB for a maximum's parts
    function = compiled(fn, driver, memory=memory)
    with pytest.raises(
        Exception, match=r"Out of device memory: \d+,\d{3},\d{3},\d{3}\S* bytes asked"
    ):
        function(random(n), random(n), random(n, 1))
    agree(fn, random(5), random(5), random(5, 1), device=driver, memory=memory)


class Launches:
    """Launches of functions that are compiled from now on, which may fail for want of memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import pyopencl as cl

        enqueue = cl.enqueue_nd_range_kernel
        self.fail = False

        def launch(*args: Any, **kwargs: Any) -> Any:
            if self.fail:
                raise cl.MemoryError("clEnqueueNDRangeKernel failed: MEM_OBJECT_ALLOCATION_FAILURE")
            return enqueue(*args, **kwargs)

        monkeypatch.setattr(cl, "enqueue_nd_range_kernel", launch)

    @contextmanager
    def failing(self) -> Iterator[None]:
        self.fail = True
        try:
            yield
        finally:
            self.fail = False


@pytest.mark.parametrize("memory", ["unified", "discrete"])
def test_parameters_after_a_call_that_failed(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the parameters of before nor those of the failed call are taken for bound."""
    launches = Launches(monkeypatch)
    layers = [nn.Linear(17, 19).requires_grad_(False) for _ in range(2)]
    old, new = (layer.weight for layer in layers)
    model = layers[0]
    function = compiled(model, two_drivers()[0], memory=memory)

    def check() -> None:
        x = random(3, 17)
        torch.testing.assert_close(function(x), model(x))

    check()
    check()
    for failing, after in ((new, old), (new, new), (old, new), (new, old)):
        model.weight = failing
        with launches.failing(), pytest.raises(errors.DeviceMemoryError):
            function(random(3, 17))
        model.weight = after
        check()
        check()


def test_memory_error_at_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers may allocate as late as that. The next call works."""
    launches = Launches(monkeypatch)
    function = compiled(lambda x: x.softmax(-1), two_drivers()[0])
    for calls in (1, 3):  # before it finds everything bound, and after
        for _ in range(calls):
            function(random(3, 5))
        with (
            launches.failing(),
            pytest.raises(errors.DeviceMemoryError, match="bytes available"),
        ):
            function(random(3, 5))
        x = random(3, 5)
        torch.testing.assert_close(function(x), x.softmax(-1))
