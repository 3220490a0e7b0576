"""Sizes and ages, read and written."""

from __future__ import annotations

import pytest

from ocl_inductor.errors import UnknownOptionError
from ocl_inductor.settings import Settings
from ocl_inductor.support.units import (
    format_age,
    format_seconds,
    format_size,
    parse_age,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("1024", 1024),
        ("1024B", 1024),
        ("500MB", 500_000_000),
        ("500 mb", 500_000_000),
        ("2GiB", 2 << 30),
        ("2g", 2_000_000_000),
        ("1.5Ki", 1536),
        ("3T", 3 * 10**12),
    ],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "MB", "-5", "5 apples", "1e9", "5BM", "0x10", "5 i"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("45m", 2700), ("12h", 43200), ("30D", 2592000), ("2 w", 1209600)],
)
def test_ages(text: str, seconds: float) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1y"])
def test_bad_ages(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        parse_age(text)


def test_formats() -> None:
    sizes = [format_size(n) for n in (0, 999, 1000, 5_160_000, 123_000_000, 2e9, 3e15)]
    assert sizes == ["0 B", "999 B", "1.0 kB", "5.2 MB", "123 MB", "2.0 GB", "3000 TB"]
    times = [format_seconds(s) for s in (0, 2e-9, 12e-6, 0.0034, 1.25, 4321)]
    assert times == ["0 s", "2 ns", "12 µs", "3.4 ms", "1.25 s", "4321 s"]
    assert [format_age(s) for s in (-5, 59, 61, 7200, 200000)] == [
        "0 s",
        "59 s",
        "1 min",
        "2 h",
        "2 d",
    ]


def test_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCL_INDUCTOR_CACHE_SIZE_LIMIT", raising=False)
    assert Settings.resolve().cache_size_limit == 2 << 30
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_SIZE_LIMIT", "500MB")
    assert Settings.resolve().cache_size_limit == 500_000_000
    assert Settings.resolve(options={"cache_size_limit": 1000}).cache_size_limit == 1000
    for bad in ("0", 0, -1, True, "much", None, 1.5):
        with pytest.raises(UnknownOptionError, match="500MB"):
            Settings.resolve(options={"cache_size_limit": bad})
