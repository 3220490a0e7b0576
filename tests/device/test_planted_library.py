"""A library that another user names in the cache folder is not opened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ocl_inductor.runtime.build.stub_library import stub_library

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can give a file to another user"
)
NOBODY = 65534

#: Opens the first driver and says whether a library is in the process then.
OPEN = (
    "import sys\n"
    "from ocl_inductor.device.select import select_device\n"
    "select_device().context\n"
    "print(sys.argv[1] in open('/proc/self/maps').read())\n"
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's."""
    made = Path(tempfile.mkdtemp(prefix="ocl_inductor_planted_"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_a_library_named_in_the_cache(clean_env: dict[str, str], place: Path) -> None:
    evil, cache = place / "libevil.so", place / "cache"
    evil.write_bytes(stub_library(["name"]))
    env = {**clean_env, "OCL_INDUCTOR_CACHE_DIR": str(cache)}
    env.pop("OCL_INDUCTOR_CPU_TARGET", None)  # drivers that are told one are surveyed once more

    def opened() -> bool:
        command = [sys.executable, "-c", OPEN, str(evil)]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1] == "True"

    assert not opened()
    (survey,) = (cache / "drivers").glob("*.json")
    document = json.loads(survey.read_text())
    found = json.loads(document["value"]["found"])
    for library in found["libraries"]:
        library["parts"] = [str(evil)]
    planted = json.dumps({**document, "value": {**document["value"], "found": json.dumps(found)}})
    survey.write_text(planted)
    assert opened()  # what the user's own file names is opened: so the test can tell

    os.chown(survey, NOBODY, NOBODY)
    assert not opened()
    survey.write_text(planted)
    cache.chmod(0o775)
    assert not opened()
