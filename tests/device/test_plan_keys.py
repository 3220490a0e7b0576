"""Which graphs share a plan that was kept, and which are compiled each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import random, two_drivers
from plan_cache import DRIVER, Cache, doubled
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.capture.warm import plan_key, warm_start
from ocl_inductor.capture.warm.unseen_code import why_not_storable
from ocl_inductor.observe import fallback_log
from ocl_inductor.observe.fallback_log import FallbackLines
from ocl_inductor.operators.registry import LOWERINGS


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


def test_fallback_error_does_not_take_a_plan_with_fallbacks(
    cache: Cache, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x) + 1

    x = random(5, 5)
    for expected in ("miss", "hit"):
        caplog.clear()
        monkeypatch.setattr(fallback_log, "_lines", FallbackLines())  # as in a new process
        assert cache.same(f, x) == expected
        assert counters["opencl"]["fallbacks"] == 1
        # What runs on the host is said of a plan from the cache, too.
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
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    assert why_not_storable(graph, lambda node: None) is None
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


def test_a_log_of_selections_is_not_silent(cache: Cache, monkeypatch) -> None:
    assert cache.same(doubled, random(5)) == "miss"
    (log,) = (x for x in warm_start._SHOWN_BY_COMPILING if "selection" in x.name)
    monkeypatch.setattr(log, "isEnabledFor", lambda level: True)
    assert cache.same(doubled, random(5)) == "bypass"


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
