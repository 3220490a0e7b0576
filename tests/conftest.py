"""Fixtures for all tests: a hermetic environment, and each OpenCL driver as a parameter.

A test that asks for ``device_name`` runs once a driver; the name is a spec for
``options={"device": ...}``. OCL_INDUCTOR_TEST_DEVICES (comma-separated specs) narrows the list.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from slow_cases import beyond_the_sample, is_slow

# The models' tests are there before the compiler is; they start by themselves with it.
if find_spec("ocl_inductor.compile") is None:
    collect_ignore = ["models"]

_CACHE = "OCL_INDUCTOR_CACHE_DIR"
_KEPT = ("OCL_INDUCTOR_TEST_",)
_TARGET, _TEST_TARGET = "OCL_INDUCTOR_CPU_TARGET", "OCL_INDUCTOR_TEST_CPU_TARGET"


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment before any test module, and so anything of ours, is imported."""
    worker = hasattr(config, "workerinput")
    if not worker:  # xdist's workers inherit what their parent set
        for name in list(os.environ):
            # What a user has set must not steer the tests.
            if name.startswith("OCL_INDUCTOR_") and not name.startswith(_KEPT):
                del os.environ[name]
        target = os.environ.get(_TEST_TARGET)
        if target:  # the drivers of CPUs make code for another processor
            os.environ[_TARGET] = target
        os.environ.pop("TORCH_COMPILE_DEBUG", None)  # then no plan comes from the cache
        folder = os.environ.get("OCL_INDUCTOR_TEST_CACHE_DIR")
        if folder is None:  # a named one is kept, to run twice against one cache
            folder = tempfile.mkdtemp(prefix="ocl_inductor_tests_")
            config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ[_CACHE] = folder
        os.environ.setdefault("OCL_INDUCTOR_VERIFY", "1")
        # Each process that a test starts would start compile workers of its own. They have tests.
        os.environ.setdefault("OCL_INDUCTOR_COMPILE_PROCESSES", "0")
        # Of an operator whose results share memory PyTorch complains once, and raises in CI.
        os.environ.setdefault("TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING", "1")
    # Mesa's driver shows its software device only when asked to.
    os.environ.setdefault("RUSTICL_ENABLE", "llvmpipe")


def _device_names() -> list[str]:
    from ocl_inductor.device.select import list_devices

    wanted = os.environ.get("OCL_INDUCTOR_TEST_DEVICES")
    found = list(dict.fromkeys(d.short_name for d in list_devices()))
    if wanted is None:
        return found
    specs = [s.strip() for s in wanted.split(",")]
    return [name for name in found if any(s in name for s in specs)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow cases before ``-m`` looks at marks."""
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
    quick = [item for item in items if item.get_closest_marker("slow") is None]
    for item in list(beyond_the_sample(quick, _device_names())):
        item.add_marker(pytest.mark.slow)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device_name" in metafunc.fixturenames:
        # Without any driver the test shows up as skipped, for an empty parameter set.
        metafunc.parametrize("device_name", _device_names(), scope="session")


@pytest.fixture
def device(device_name: str):
    """The Device of the driver the test runs on."""
    from ocl_inductor.device.select import select_device

    return select_device(device_name)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """No compiled code, and no counter, is left over from another test."""
    if guards := sys.modules.get("torch._dynamo.guards"):
        # For a line of its log Dynamo times each new guard, for which it flushes the caches: 36 ms.
        guards.profile_guard_manager = lambda *_: 0.0
    yield
    # Tests without torch should not pay for its import.
    if "torch._dynamo" in sys.modules:
        import torch

        torch.compiler.reset()
        sys.modules["torch._dynamo.utils"].counters.clear()


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """An environment for child processes: nothing of OpenCL's or ours set, a cache of its own.

    What this process has told its drivers in their own variables is not passed on; the processor
    for which all tests run is.
    """
    ours = ("OCL_", "OPENCL_", "PYOPENCL_", "POCL_", "RUSTICL_", "CL_CONFIG_", "TORCH_LOGS")
    env = {k: v for k, v in os.environ.items() if not k.startswith((*ours, "TORCH_COMPILE"))}
    if target := os.environ.get(_TEST_TARGET):
        env[_TARGET] = target
    env[_CACHE] = str(tmp_path / "cache")
    env["OCL_INDUCTOR_COMPILE_PROCESSES"] = "0"  # each child would start its own
    return env


@pytest.fixture
def oclgrind_env(clean_env: dict[str, str]) -> dict[str, str]:
    """An environment in which a child process sees one device: the simulator that checks accesses.

    It writes "Invalid read/write" and "data race" to the child's standard error. It is kept out of
    the other tests' process because it interprets kernels.
    """
    command = shutil.which("oclgrind")
    library = Path(command or "/bin/x").parents[1] / "lib/oclgrind/liboclgrind-rt-icd.so"
    if command is None or not library.exists():
        pytest.skip("oclgrind is not installed (see tools/apt_drivers.sh)")
    return {
        **clean_env,
        "OCL_ICD_VENDORS": str(library),
        "OCLGRIND_DATA_RACES": "1",
    }


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden from what is emitted"
    )
    parser.addoption(
        "--update-ratchet",
        action="store_true",
        help="write improved numbers (and new models) to tests/models/plan_ratchet.json",
    )
