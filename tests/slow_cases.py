"""Cases that `make test` leaves to `make test-all`, beside the tests marked slow where they stand.

The suite has a time limit. What a driver takes long to build runs by default on another one, or in
the driver's own profile; a line of the table is a pattern over the ids of tests, and says why.

A test that is there for every driver and profile runs by default on the first driver, whose
compiler takes the least time, and in one case of a few in each of the others, always the same: a
fault of a driver, or of a profile, shows in many cases of a kind. `make test-all` runs them all.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

_BOTH = "{0}.*{1}|{1}.*{0}"


def _of(files: str, driver: str, profile: str) -> str:
    """Cases of test functions that run on a driver in a profile, in any order of the id's parts."""
    return rf"({files})\S*\[\S*({_BOTH.format(driver, profile)})"


_POCL, _OLD_POCL, _LLVMPIPE = r"pocl(-3\.1)?\b", r"pocl-3\.0", "rusticl"

SLOW_CASES: tuple[tuple[str, str], ...] = (
    (
        _of(r"tests/device/\w+\.py", _OLD_POCL, "simt"),
        "the older of two versions of one driver: its own profile only",
    ),
    (
        rf"(test_decode_attention|test_attention_backward)\.py\S*\[\S*{_OLD_POCL}",
        "the newer version runs them; large kernels, seconds each to build",
    ),
    (
        rf"(test_structural|test_primitives\w*|test_random|test_docs)\.py\S*\[\S*{_OLD_POCL}",
        "the newer version runs them; 1 s and more each, some hundreds of them",
    ),
    (
        _of(r"test_templates|test_attention\.py|test_stored_dtypes", _LLVMPIPE, "vector"),
        "not its profile; 10 s each to build",
    ),
    (
        rf"test_simt_tiles\.py::test_(products|convolutions)\w*\[\S*({_OLD_POCL}|{_LLVMPIPE})",
        "a dozen kernels each, a second to build; two other drivers run them",
    ),
    (rf"test_docs\.py\S*\[\S*{_LLVMPIPE}", "the examples of pages; 9 s each"),
    (
        _of(
            "test_numerics|test_order_statistics|test_scatter_reductions|test_sorting|test_scans|"
            "test_searching|test_rewrites|test_conv_backward|test_distances|test_grid_sample|"
            "test_irregular_operators|test_models|test_stored_dtypes",
            _POCL,
            "simt",
        ),
        "work-group code takes PoCL up to four times as long to build as Intel's driver",
    ),
    (
        r"test_(transformer_layer_in_training|whole_training_steps|autocast)\[\S*pocl",
        "15 s each to build; Intel's driver runs them",
    ),
    (r"test_only_max_autotune_measures\[pocl", "35 s; Intel's driver runs it in 8"),
    (r"test_ocl\.py\S*\[(intel-auto|pocl\S*-discrete)", "100 s and more; the other two run"),
    (r"test_ocl\.py::test_lazy_mode\[pocl", "160 s; Intel's driver runs it"),
    (rf"test_(ocl|widened)\.py\S*\[\S*{_LLVMPIPE}", "50 to 400 s; the other drivers run them"),
    (
        rf"test_(simt_\w+|window_product)\.py\S*\[\S*{_POCL}",
        "a dozen kernels each, 10 s; Intel's driver runs them",
    ),
    (
        r"test_random\.py::test_\w+_numbers_are_the_same\S*\[(pocl|rusticl)",
        "20 to 60 s; Intel's driver runs them",
    ),
    (
        r"test_one_graph_serves_all_sizes\[pocl\S*-automatic",
        "5 s each; dynamic=True builds the same kernels there, Intel's driver runs these as well",
    ),
    (r"test_conv_backward\.py\S*\[plain-pocl", "28 s; `weights` and Intel's driver run by default"),
    (r"test_model\[(efficientnet_b0|unet)-intel", "20 and 9 s; as slow as their PoCL cases"),
    (
        r"test_models\.py::test_model\[(vit_tiny|gpt2|distilbert|alexnet)-pocl",
        "20 to 40 s each; PoCL runs the others, Intel's driver these as well",
    ),
    (r"test_training\.py::test_model\[distilbert", "22 s and more; its layers are BERT's"),
    (
        r"test_a_model_on_an_older_processor\[pocl",
        "38 s; Intel's driver runs it, and `make test` has templates for both on each",
    ),
    (r"test_patches\.py::test_all_off\[", "50 s; each patch that can be off has tests of its own"),
    (r"test_fourier\.py::test_there_and_back\[1024", "60 s, most of it drivers'; 400 points run"),
    (r"test_each_way_compared_in_turn", "35 s; compared whole it runs by default"),
    (r"test_mma_products\.py::test_gradients\S*\[\S*pocl", "20 s; Intel's driver runs them"),
    (r"test_run\.py::test_two_models_end_to_end", "30 s; `make sweep-smoke` does the same"),
    (r"test_docs\.py::test_(adding_simt|pipeline)", "15 s each; the other pages run"),
)

_PATTERNS = tuple(re.compile(pattern) for pattern, _ in SLOW_CASES)


def is_slow(test_id: str) -> bool:
    """Whether the table has the test of this id."""
    return any(p.search(test_id) for p in _PATTERNS)


#: A case that is there for several drivers and profiles runs by default in one of them, on the
#: first driver, and of the others one in so many. PoCL's compiler takes two to four times as long:
#: with one case in six on it, a seventh of the tests took a third of the time.
SHARE = 24
_PROFILES = ("vector", "simt")

#: Test functions of which one case in so many runs by default, for the time they take
#: (tools/sample_tests.py).
SAMPLED: dict[str, int] = json.loads(Path(__file__).with_name("sampled_cases.json").read_text())


def beyond_the_sample(items: Iterable[Any], drivers: Collection[str]) -> Iterator[Any]:
    """Of pytest's items, none of them slow, those that are left out by default."""
    cases: dict[str, list[Any]] = {}
    for item in items:
        cases.setdefault(_case(item, drivers), []).append(item)
    first = []
    for found in cases.values():
        driver = _driver(found[0], drivers)
        kept = min((item for item in found if _driver(item, drivers) == driver), key=_number)
        first.append(kept)
        yield from (x for x in found if x is not kept and _number(x) % SHARE)
    yield from beyond_the_share(first)


def beyond_the_share(items: Iterable[Any]) -> Iterator[Any]:
    """Those that ``SAMPLED`` leaves out."""
    functions: dict[str, list[Any]] = {}
    for item in items:
        functions.setdefault(_function(item), []).append(item)
    for name, found in functions.items():
        for place, item in enumerate(sorted(found, key=_number)):
            if place % SAMPLED.get(name, 1):
                yield item


def _function(item: Any) -> str:
    """``test_file.py::test_function``."""
    return str(item.nodeid).partition("[")[0].rpartition("/")[2]


def _texts(item: Any) -> list[tuple[str, str]]:
    """A test's parameters that are texts, by name."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return [(name, value) for name, value in parameters.items() if isinstance(value, str)]


def _driver(item: Any, drivers: Collection[str]) -> str | None:
    return next((value for _, value in _texts(item) if value in drivers), None)


def _case(item: Any, drivers: Collection[str]) -> str:
    """What the test is, apart from driver and profile, whatever it calls them."""
    name = item.nodeid
    for place, value in _texts(item):
        if value in drivers or value in _PROFILES:
            name = re.sub(rf"(?<=[\[-]){re.escape(value)}(?=[-\]])", f"<{place}>", name, count=1)
    return str(name)


def _number(item: Any) -> int:
    """Spreads cases over drivers and profiles, always in the same way."""
    return zlib.crc32(item.nodeid.encode())
