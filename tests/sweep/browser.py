"""A headless browser for the report, where this machine has one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str:
    """The path of a Chromium; skips the test where there is none."""
    for name in _NAMES:
        if (path := shutil.which(name)) is not None:
            return path
    pytest.skip(f"no headless browser here (looked for {', '.join(_NAMES)})")


def _run(page: Path, profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [
        find_browser(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",  # whatever the page asks of a network fails
        f"--user-data-dir={profile}",
        *flags,
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def screenshot(page: Path, target: Path, width: int, height: int) -> None:
    """Draw a page as a PNG of ``width`` by ``height``."""
    done = _run(
        page, target.parent / "profile", f"--screenshot={target}", f"--window-size={width},{height}"
    )
    assert target.exists(), done.stderr[-2000:]


def dom(page: Path, profile: Path) -> str:
    """The document as the browser understood it, and nothing it complained about."""
    return _run(page, profile, "--dump-dom").stdout
