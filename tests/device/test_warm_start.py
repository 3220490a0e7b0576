"""Plans kept between compilations: found again, and never taken for another graph's.

Most tests compile twice in one process, with a reset between; that goes through the same entries
on disk as another process does, which the last test starts.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import random, two_drivers
from torch import nn
from torch._dynamo.utils import counters
from torch.compiler._cache import CacheArtifactManager

from ocl_inductor.capture import plan_key, warm_start
from ocl_inductor.capture.warm_start import AOTAutogradCache
from ocl_inductor.lowering.registry import LOWERINGS
from ocl_inductor.runtime import artifacts
from ocl_inductor.runtime.plan_files import PlanFiles
from ocl_inductor.runtime.programs import forget_programs

each_driver = pytest.mark.parametrize("driver", two_drivers())
DRIVER = two_drivers()[0]


class Cache:
    """Compiles afresh against one folder, and says what the cache did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, fn: Callable[..., Any], *args: Any, device: str = DRIVER, **options: Any) -> Any:
        """The result of the first call."""
        torch.compiler.reset()
        counters.clear()
        dynamic = options.pop("dynamic", False)
        options = {"device": device, "cache_dir": str(self.folder), **options}
        return torch.compile(fn, backend="opencl", dynamic=dynamic, options=options)(*args)

    @staticmethod
    def outcome() -> str:
        """``hit``, ``miss``, ``bypass`` or ``off``."""
        table = counters["opencl"]
        names = {"plan_hits": "hit", "plan_misses": "miss", "plan_bypasses": "bypass"}
        found = [what for name, what in names.items() if table[name]]
        assert len(found) <= 1, table
        return found[0] if found else "off"

    def same(self, fn: Callable[..., Any], *args: Any, **options: Any) -> str:
        """Compile, compare with eager, and say what the cache did."""
        result = self.run(fn, *args, **options)
        torch.testing.assert_close(result, fn(*args), rtol=1e-4, atol=1e-4)
        return self.outcome()

    def entries(self) -> list[Path]:
        return sorted(p for p in (self.folder / "plans").rglob("*") if p.is_file())


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def program(x: torch.Tensor) -> torch.Tensor:
    return (x.softmax(-1) @ x.t()).cumsum(0)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu()


@each_driver
def test_second_compilation_compiles_nothing(driver: str, cache: Cache, monkeypatch) -> None:
    assert cache.same(program, random(9, 17), device=driver) == "miss"
    graphs, kernels = counters["opencl"]["graphs"], counters["opencl"]["kernels"]

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("ocl_inductor.compile.make_plan", never)
    monkeypatch.setattr("ocl_inductor.capture.decompositions.decomposition_table", never)
    assert cache.same(program, random(9, 17), device=driver) == "hit"
    assert (counters["opencl"]["graphs"], counters["opencl"]["kernels"]) == (graphs, kernels)


class Net(nn.Module):
    """With parameters, buffers that training writes, random numbers and several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(x).relu()
        return self.head(self.drop(y)), y


def train(net: Net, cache: Cache | None, x: torch.Tensor, driver: str) -> tuple[list[Any], str]:
    """Two steps: losses, gradients and buffers."""
    torch.manual_seed(7)
    seen: list[Any] = []
    outcome = ""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(model: Callable[..., Any]) -> None:
        optimizer.zero_grad()
        logits, y = model(x)
        loss = logits.square().sum() + y.mean()
        loss.backward()
        seen.append(loss.detach().clone())
        seen.extend(p.grad.clone() for p in net.parameters() if p.grad is not None)
        seen.extend(b.clone() for b in net.buffers())
        optimizer.step()

    if cache is None:
        step(net), step(net)
    else:
        torch.compiler.reset()
        counters.clear()
        options = {"device": driver, "cache_dir": str(cache.folder)}
        model = torch.compile(net, backend="opencl", options=options)
        step(model), step(model)
        outcome = cache.outcome()
    return seen, outcome


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


@pytest.mark.parametrize(
    "options",
    [{"winograd": False}, {"profile": "simt"}, {"memory": "discrete"}, {"fallback": "error"}],
    ids=lambda o: next(iter(o)),
)
def test_other_options_are_other_plans(options: dict[str, Any], cache: Cache) -> None:
    x = random(9, 17)
    assert cache.same(doubled, x) == "miss"
    assert cache.same(doubled, x, **options) == "miss"
    assert cache.same(doubled, x, **options) == "hit"
    assert cache.same(doubled, x) == "hit"
    # What does not enter the plan does not enter the key.
    assert cache.same(doubled, x, compile_threads=1) == "hit"


def test_fallback_error_does_not_take_a_plan_with_fallbacks(cache: Cache, caplog) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x) + 1

    x = random(5, 5)
    for expected in ("miss", "hit"):
        caplog.clear()
        assert cache.same(f, x) == expected
        assert counters["opencl"]["fallbacks"] == 1
        # What runs on the host is said each time.
        assert "runs on the host" in caplog.text
        assert "in f" in caplog.text
    with pytest.raises(Exception, match="cannot be compiled to OpenCL"):
        cache.run(f, x, fallback="error")


def test_drivers_do_not_share_plans(cache: Cache) -> None:
    for expected in ("miss", "hit"):
        for driver in two_drivers():
            assert cache.same(doubled, random(9, 17), device=driver) == expected


@pytest.mark.parametrize(
    "what",
    [
        (plan_key, "__version__", "99"),
        (plan_key, "package_digest", lambda: "edited"),
        (plan_key, "SCHEMA_VERSION", 99),
        (torch, "__version__", "99.0"),
    ],
    ids=lambda w: w[1],
)
def test_other_versions_are_other_plans(what: tuple[Any, ...], cache: Cache, monkeypatch) -> None:
    assert cache.same(doubled, random(9)) == "miss"
    monkeypatch.setattr(*what)
    assert cache.same(doubled, random(9)) == "miss"
    monkeypatch.undo()
    assert cache.same(doubled, random(9)) == "hit"


def test_pytorchs_switches_are_in_the_key(cache: Cache) -> None:
    x = random(2, 4, 9, 8)

    def f(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)

    assert cache.same(f, x) == "miss"
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        assert cache.same(f, x) == "miss"
    assert cache.same(f, x) == "hit"

    def product(x: torch.Tensor) -> torch.Tensor:
        return x[0, 0] @ x[0, 0].t()

    assert cache.same(product, x) == "miss"
    with torch.autocast("cpu", torch.bfloat16):
        result = cache.run(product, x)
        assert (cache.outcome(), result.dtype) == ("miss", torch.bfloat16)
    assert cache.same(product, x) == "hit"


def test_constants_of_the_same_shape(cache: Cache) -> None:
    def with_literal(values: list[float]) -> Callable[[torch.Tensor], torch.Tensor]:
        source = f"def f(x):\n    return x * torch.tensor({values}) + torch.full((3,), {values[0]})"
        space: dict[str, Any] = {"torch": torch}
        exec(source, space)
        return space["f"]

    x = random(4, 3)
    for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        for expected in ("miss", "hit"):
            assert cache.same(with_literal(values), x) == expected


def test_tensors_that_a_function_closes_over(cache: Cache) -> None:
    for expected in ("miss", "hit", "hit"):
        table, scale = random(7), torch.rand(())

        def f(x: torch.Tensor, table=table, scale=scale) -> torch.Tensor:
            return x * table.flip(0) + scale

        assert cache.same(f, random(3, 7)) == expected


class Holder(nn.Module):
    """A plain attribute that is a tensor, and a number; neither is a parameter."""

    def __init__(self, table: torch.Tensor, number: float) -> None:
        super().__init__()
        self.table, self.number = table, number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.table) * self.number


def test_attributes_of_modules(cache: Cache) -> None:
    for number in (1.5, 2.5):
        for expected in ("miss", "hit"):
            assert cache.same(Holder(random(7), number), random(3, 7)) == expected


def test_dynamic_shapes(cache: Cache) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.cat([x, y]) if x.shape[0] > 8 else x[:3] * y[:3]
        return z.softmax(-1) * x.shape[1]

    for rows in (4, 5, 12, 30):
        x, y = random(rows, 7), random(rows, 7)
        first = cache.same(f, x, y, dynamic=True)
        assert cache.same(f, x, y, dynamic=True) == "hit"
        # The guard on the number of rows separates two plans.
        assert first == ("miss" if rows in (4, 12) else "hit")
    # A plan from the cache serves other sizes, and its guards hold.
    torch.compiler.reset()
    options = {"device": DRIVER, "cache_dir": str(cache.folder)}
    g = torch.compile(f, backend="opencl", dynamic=True, options=options)
    for rows, columns in ((5, 7), (6, 3), (20, 3), (8, 8), (9, 2)):
        x, y = random(rows, columns), random(rows, columns)
        torch.testing.assert_close(g(x, y), f(x, y), rtol=1e-4, atol=1e-4)


def test_other_strides_and_dtypes(cache: Cache) -> None:
    x = random(8, 8)
    for expected in ("miss", "hit"):
        for argument in (x, x.t(), x.double(), x[:, :4], x[:4]):
            assert cache.same(doubled, argument) == expected


def test_custom_operators_are_compiled_each_time(cache: Cache) -> None:
    """Their shape functions may change without any change to the graph."""
    for width in (2, 5):
        library = torch.library.Library("warm_start_test", "FRAGMENT")
        library.define("widen(Tensor x) -> Tensor")

        def widen(x: torch.Tensor, width: int = width) -> torch.Tensor:
            return x.repeat(1, width) * width

        library.impl("widen", widen, "CPU")
        torch.library.register_fake("warm_start_test::widen", widen, lib=library)
        f = eval("lambda x: torch.ops.warm_start_test.widen(x) + 1", {"torch": torch})
        for _ in range(2):
            assert cache.same(f, random(3, 4)) == "bypass"
        library._destroy()


def test_lowerings_of_the_user_are_compiled_each_time(cache: Cache, monkeypatch) -> None:
    assert plan_key.why_not_storable(torch.fx.symbolic_trace(lambda x: x + 1)) is None
    assert cache.same(doubled, random(5)) == "miss"

    def own(*args: Any) -> Any:
        raise AssertionError("not called")

    monkeypatch.setitem(LOWERINGS, torch.ops.aten.igamma.default, own)
    assert cache.same(doubled, random(5)) == "bypass"


def test_graphs_that_cannot_be_kept_still_run(cache: Cache, monkeypatch) -> None:
    def refuse(plan: Any) -> bytes:
        raise warm_start.PlanNotStorable("a test says so")

    monkeypatch.setattr(warm_start, "dump_plan", refuse)
    for _ in range(2):
        x = random(5)
        torch.testing.assert_close(cache.run(doubled, x), doubled(x))
        assert counters["opencl"]["plan_hits"] == 0
        assert counters["opencl"]["plan_bypasses"] == 1
    assert cache.entries() == []


def test_switched_off(cache: Cache, monkeypatch) -> None:
    assert cache.same(doubled, random(5)) == "miss"
    assert cache.same(doubled, random(5), cache=False) == "off"
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")
    assert cache.same(doubled, random(5)) == "off"
    monkeypatch.undo()
    with torch.compiler.config.patch(force_disable_caches=True):
        assert cache.same(doubled, random(5)) == "bypass"
    assert cache.same(doubled, random(5), debug_dir=str(cache.folder / "debug")) == "bypass"
    monkeypatch.setattr(warm_start, "UNAVAILABLE", "a test says so")
    assert cache.same(doubled, random(5)) == "bypass"
    monkeypatch.undo()
    assert cache.same(doubled, random(5)) == "hit"


def _truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _empty(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("damage", [_truncated, _empty, _flipped], ids=lambda f: f.__name__[1:])
def test_damaged_entries_are_misses(
    damage: Callable[[bytes], bytes], renamed: bool, cache: Cache
) -> None:
    """``renamed``: the file's name fits its damaged content, so that only reading it can tell."""
    if renamed and damage is _flipped:
        damage = _other_object
    assert cache.same(program, random(9, 17)) == "miss"
    (entry,) = cache.entries()
    content = damage(entry.read_bytes())
    entry.write_bytes(content)
    if renamed:
        entry.rename(entry.with_name(hashlib.sha256(content).hexdigest()))
    assert cache.same(program, random(9, 17)) == "miss"
    assert cache.same(program, random(9, 17)) == "hit"
    assert len(cache.entries()) == 1


def _other_object(data: bytes) -> bytes:
    return pickle.dumps({"not": "an entry"})


def test_entry_of_another_graph_is_not_taken(cache: Cache) -> None:
    """Somebody has moved files about: each plan says what it was made for."""
    x = random(6, 6)
    assert cache.same(doubled, x) == "miss"
    (entry,) = cache.entries()
    assert cache.same(doubled, x, profile="simt") == "miss"
    other = next(p for p in cache.entries() if p != entry)
    content = other.read_bytes()
    entry.unlink()
    (entry.parent / other.name).write_bytes(content)
    result = cache.run(doubled, x)
    torch.testing.assert_close(result, doubled(x))
    assert counters["opencl"]["plan_hits"] == 0


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for _ in range(2):
        assert Cache(blocked).same(doubled, random(5)) == "miss"


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_files_are_private(cache: Cache) -> None:
    cache.same(doubled, random(5))
    for path in [cache.folder / "plans", *(cache.folder / "plans").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_other_backends_keep_their_folder(cache: Cache, tmp_path: Path, monkeypatch) -> None:
    cache.same(doubled, random(5))  # the hooks are in place from here on
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    before = cache.entries()
    AOTAutogradCache._write_to_local_cache("akey", pickle.dumps([1, 2]))
    found = list(AOTAutogradCache.iterate_over_candidates(True, None, "akey"))
    assert [entry for entry, _, _ in found] == [[1, 2]]
    assert cache.entries() == before
    assert len([p for p in (tmp_path / "inductor").rglob("*") if p.is_file()]) == 1


def test_files_of_one_key(tmp_path: Path) -> None:
    files = PlanFiles(tmp_path / "plans")
    assert list(files.read("key")) == []
    files.write("key", b"first")
    files.write("key", b"second")
    files.write("key", b"second")
    assert sorted(files.read("key")) == [b"first", b"second"]
    files.remove("key", b"first")
    assert list(files.read("key")) == [b"second"]
    assert list(files.read("other")) == []


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


def test_artifacts_of_another_version_are_left_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    artifacts.KernelArtifact("ab" * 32, b"ocl-inductor kernel 0\nsomething").populate_cache()
    assert not list(tmp_path.rglob("*.kernel"))
    assert artifacts.loaded(artifacts.KERNEL, "ab" * 32) == []


def test_limit_on_what_plans_take(tmp_path: Path) -> None:
    files = PlanFiles(tmp_path / "plans", limit=350)
    for number in range(3):
        files.write(f"key{number}", bytes([number]) * 100)
        (path,) = (tmp_path / "plans" / f"key{number}").iterdir()
        os.utime(path, (1000 + number, 1000 + number))
    assert len(list(files.read("key0"))) == 1  # used now: the oldest is key1
    files.write("key3", b"x" * 100)
    assert [n for n in range(4) if list(files.read(f"key{n}"))] == [0, 2, 3]


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_files_that_others_can_write_are_not_read(tmp_path: Path) -> None:
    files = PlanFiles(tmp_path / "plans")
    files.write("key", b"content")
    (path,) = (tmp_path / "plans" / "key").iterdir()
    path.chmod(0o666)
    assert list(files.read("key")) == []
    path.chmod(0o600)
    assert list(files.read("key")) == [b"content"]
    (tmp_path / "plans").chmod(0o777)
    assert list(PlanFiles(tmp_path / "plans").read("key")) == []


_CHILD = """
import sys, torch
from torch._dynamo.utils import counters
import test_warm_start as t
from pathlib import Path
def never(*a, **k): raise AssertionError("compiled again")
import ocl_inductor.compile
ocl_inductor.compile.make_plan = never
cache = t.Cache(Path(sys.argv[1]))
for driver in sys.argv[2:]:
    assert cache.same(t.program, t.random(9, 17), device=driver) == "hit"
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


@pytest.fixture(autouse=True)
def _no_debug_folder(monkeypatch) -> Iterator[None]:
    monkeypatch.delenv("TORCH_COMPILE_DEBUG", raising=False)
    yield
