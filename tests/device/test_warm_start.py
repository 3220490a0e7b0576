"""Plans kept between compilations: found again, and never taken for another graph's.

Most tests compile twice in one process, with a reset between; that goes through the same entries
on disk as another process does, which the last test starts.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import random, two_drivers
from plan_cache import DRIVER, Cache, Net, program, train
from torch._dynamo.utils import counters
from torch.compiler._cache import CacheArtifactManager

from ocl_inductor.capture.warm import warm_start
from ocl_inductor.device.select import select_device
from ocl_inductor.runtime.build.programs import forget_programs
from ocl_inductor.runtime.store import artifacts
from ocl_inductor.settings import Settings

each_driver = pytest.mark.parametrize("driver", two_drivers())


@each_driver
def test_second_compilation_compiles_nothing(driver: str, cache: Cache, monkeypatch) -> None:
    assert cache.same(program, random(9, 17), device=driver) == "miss"
    graphs, kernels = counters["opencl"]["graphs"], counters["opencl"]["kernels"]

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("ocl_inductor.compile.make_plan", never)
    monkeypatch.setattr("ocl_inductor.capture.decompositions.table.decomposition_table", never)
    assert cache.same(program, random(9, 17), device=driver) == "hit"
    assert (counters["opencl"]["graphs"], counters["opencl"]["kernels"]) == (graphs, kernels)


@each_driver
def test_training(driver: str, cache: Cache) -> None:
    torch.manual_seed(0)
    cold, warm, eager = Net(), Net(), Net()
    eager.drop.p = 0.0
    x = random(9, 6)
    for net in (cold, warm, eager):
        net.load_state_dict(cold.state_dict())
    first, outcome = train(cold, cache, x, driver)
    assert outcome == "miss"
    second, outcome = train(warm, cache, x, driver)
    assert outcome == "hit"
    # Same seed, same random numbers.
    torch.testing.assert_close(first, second)

    # Without random numbers, against eager: another graph, kept beside the first.
    for net in (cold, warm):
        net.drop.p = 0.0
        net.load_state_dict(eager.state_dict())
    expected, _ = train(eager, None, x, driver)
    first, outcome = train(cold, cache, x, driver)
    assert outcome == "miss"
    second, outcome = train(warm, cache, x, driver)
    assert outcome == "hit"
    torch.testing.assert_close(first, expected, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(second, expected, rtol=1e-3, atol=1e-4)


def test_other_weights_of_the_same_shapes(cache: Cache) -> None:
    x = random(9, 6)
    with torch.no_grad():
        for expected in ("miss", "hit", "hit"):
            net = Net().eval()
            net.norm.running_mean.normal_()
            assert cache.same(net, x) == expected


@pytest.mark.usefixtures("unchained")
@each_driver
@pytest.mark.parametrize("usual", [True, False], ids=["usual folder", "folder by option"])
def test_artifacts_carry_plans_and_kernels(
    driver: str, usual: bool, tmp_path: Path, monkeypatch
) -> None:
    def compile_in(folder: str) -> tuple[int, int]:
        """Misses of the kernels, hits of plans; inference and training."""
        cache = Cache(tmp_path / folder)
        monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(cache.folder if usual else tmp_path))
        cache.same(program, random(9, 17), device=driver)
        misses, hits = counters["opencl"]["cache_misses"], counters["opencl"]["plan_hits"]
        torch.manual_seed(0)
        _, _ = train(Net(), cache, random(9, 6), driver)
        table = counters["opencl"]
        return misses + table["cache_misses"], hits + table["plan_hits"]

    CacheArtifactManager.clear()
    monkeypatch.setattr(artifacts, "_loaded", {})
    forget_programs()
    misses, hits = compile_in("first")
    assert misses > 3 and hits == 0
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    bundle, info = saved
    assert len(info.opencl_kernel_artifacts) == misses
    assert len(info.opencl_plan_artifacts) == 2

    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path / ("second" if usual else "usual")))
    forget_programs()
    loaded = torch.compiler.load_cache_artifacts(bundle)
    assert loaded is not None and loaded.opencl_kernel_artifacts
    if usual:  # what is on disk is enough, in this process and in others
        monkeypatch.setattr(artifacts, "_loaded", {})
    assert compile_in("second") == (0, 3)
    CacheArtifactManager.clear()


_CHILD = """
import sys, torch
from torch._dynamo.utils import counters
import plan_cache as t
from agreement import random
from pathlib import Path
def never(*a, **k): raise AssertionError("compiled again")
import ocl_inductor.compile
ocl_inductor.compile.make_plan = never
cache = t.Cache(Path(sys.argv[1]))
for driver in sys.argv[2:]:
    assert cache.same(t.program, random(9, 17), device=driver) == "hit"
    assert counters["opencl"]["cache_misses"] == 0
    torch.manual_seed(0)
    net = t.Net()
    seen, outcome = t.train(net, cache, torch.arange(54.0).reshape(9, 6), driver)
    assert outcome == "hit", outcome
    print(*[float(x.double().sum()) for x in seen])
"""


def test_another_process(cache: Cache, clean_env: dict[str, str]) -> None:
    """It compiles nothing, in training either, and computes the same numbers."""
    expected = []
    for driver in two_drivers():
        assert cache.same(program, random(9, 17), device=driver) == "miss"
        torch.manual_seed(0)
        seen, outcome = train(Net(), cache, torch.arange(54.0).reshape(9, 6), driver)
        assert outcome == "miss"
        expected.append([float(x.double().sum()) for x in seen])
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(cache.folder), *two_drivers()],
        env={**clean_env, "PYTHONPATH": path, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    got = [[float(x) for x in line.split()] for line in done.stdout.splitlines()]
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


_PRECOMPILED = """
import sys, torch
from torch._dynamo.utils import counters
import plan_cache as t
from agreement import random
torch.manual_seed(0)
x, net = torch.arange(54.0).reshape(9, 6), t.Net().eval()
with torch.no_grad():
    compiled = torch.compile(net, backend="opencl", options={"device": sys.argv[1]})
    torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)
torch.compiler.save_cache_artifacts()
print(counters["dynamo_cache"]["dynamo_cache_hit"], counters["opencl"]["plan_hits"])
"""


@pytest.mark.slow
@each_driver
def test_dynamos_own_cache(
    driver: str, clean_env: dict[str, str], tmp_path: Path, monkeypatch
) -> None:
    """With TORCH_CACHING_PRECOMPILE a later process skips Dynamo as well; but not with a plan of
    another version, which is a miss.
    """
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    env = {
        **clean_env,
        "PYTHONPATH": path,
        "TORCH_CACHING_PRECOMPILE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "dynamo"),
        "OCL_INDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
    }

    def process(program: str = _PRECOMPILED) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, driver],
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert [process(), process()] == ["0 0", "1 1"]
    another = 'import ocl_inductor; ocl_inductor.__version__ = "another"\n' + _PRECOMPILED
    assert process(another) == "0 0"


def test_plan_read_without_its_backend_is_checked(cache: Cache, monkeypatch) -> None:
    """Dynamo's own cache reads plans by itself."""
    device = select_device(DRIVER)
    settings = Settings(device=DRIVER)
    environment = warm_start._environment(device, settings)
    plan = warm_start.StoredPlan("key", environment, settings, b"payload")
    assert pickle.loads(pickle.dumps(plan)).payload == b"payload"
    for other in (
        dataclasses.replace(plan, environment="another"),
        dataclasses.replace(plan, settings=Settings(device=DRIVER, winograd=False)),
    ):
        data = pickle.dumps(other)
        with pytest.raises(pickle.UnpicklingError, match="another device, driver or version"):
            pickle.loads(data)
