"""The kernel cache under faults: nothing wrong, nothing lost, no exception to the user.

Each scenario runs in processes of its own (``worker.py``). Those marked ``slow`` are the same with
many more rounds: ``make fuzz``. They begin no more rounds when FAULT_SECONDS (60) have passed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agreement import two_drivers

from ocl_inductor.support import child_process

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker forks")
WORKER = Path(__file__).parent / "worker.py"
SECONDS = float(os.environ.get("FAULT_SECONDS", "60"))


def rounds(few: int, many: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.slow)])


class Faults:
    """Runs scenarios in one worker, and keeps what the last one said to the user.

    ``note`` shows a line of progress.
    """

    def __init__(self, folder: Path, note: Callable[[str], object]) -> None:
        # Another one in each run; printed, so that a failure can be had again.
        self.seed = os.environ.get("FAULT_SEED") or str(random.SystemRandom().randrange(10**9))
        self.root = folder
        self.numbers = itertools.count()
        self.folder = folder
        self.said = ""
        ours = ("OCL_", "OPENCL_", "PYOPENCL_", "POCL_", "RUSTICL_", "TORCH_LOGS")
        env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        self.env = {**env, "OCL_INDUCTOR_CACHE_DIR": str(folder / "cache")}
        self.note = note
        self.worker: subprocess.Popen[str] | None = None

    def fresh(self) -> Path:
        """The folder that the next scenario will use."""
        self.folder = self.root / f"scenario{next(self.numbers)}"
        return self.folder

    def run(self, scenario: str, driver: str, count: int) -> Any:
        try:
            result, self.said = self.ask(scenario, driver, str(self.folder), count)
        except BaseException:  # a time limit: its answer will come when nobody asks any more
            self.stop()
            raise
        print(f"FAULT_SEED={self.seed}\n{self.said}")
        assert "Traceback" not in self.said
        return result

    def ask(self, scenario: str, *arguments: str | int) -> list[Any]:
        if self.worker is None:
            self.worker = child_process.start(
                [sys.executable, str(WORKER)],
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self.worker.stdin is not None and self.worker.stdout is not None
        command = [scenario, *arguments, self.seed, SECONDS]
        print(json.dumps(command), file=self.worker.stdin, flush=True)
        for line in self.worker.stdout:
            answer = json.loads(line)
            if isinstance(answer, list):
                return answer
            self.note(f"{scenario}: {answer}")
        raise AssertionError(f"the worker ended with {self.worker.wait()}")

    def stop(self) -> None:
        if self.worker is not None:
            child_process.end_group(self.worker)
            self.worker.communicate()
            self.worker = None


@pytest.fixture(scope="module")
def worker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Faults]:
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def note(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end="", file=sys.stderr, flush=True)

    faults = Faults(tmp_path_factory.mktemp("faults"), note)
    yield faults
    faults.stop()


@pytest.fixture
def faults(worker: Faults) -> Faults:
    worker.fresh()
    return worker


first_driver = two_drivers()[:1]
each_driver = pytest.mark.parametrize("driver", two_drivers())
one_driver = pytest.mark.parametrize("driver", first_driver)

# PoCL compiles through files of its own in the user's cache folder, and fails without them.
disk_free_driver = pytest.mark.parametrize("driver", [d for d in first_driver if "pocl" not in d])


@each_driver
@rounds(8, 16)
def test_processes_on_one_cold_cache(faults: Faults, driver: str, count: int) -> None:
    said = faults.run("processes", driver, count)
    built = [c.get("cache_misses", 0) for c in said["together"]]
    found = [c.get("cache_hits", 0) for c in said["together"]]
    assert [b + f for b, f in zip(built, found, strict=True)] == [4] * count
    # One builds while the others wait for it.
    assert sum(built) == 4
    assert said["after"]["cache_hits"] == 4
    assert said["state"] == {"sound": 4, "bad": 0, "leftover": 0}
    assert faults.said == ""


@one_driver
@rounds(3, 60)
def test_killed_while_compiling(faults: Faults, driver: str, count: int) -> None:
    said = faults.run("killed_compiling", driver, count)
    assert said["first"]["cache_misses"] == 4
    for r in said["rounds"]:
        assert r["left"]["bad"] == 0
        assert r["left"]["leftover"] <= 2  # one for each thread that was writing
        # What was there is used, and the rest is built.
        assert r["after"].get("cache_hits", 0) == r["left"]["sound"]
        assert r["after"].get("cache_misses", 0) == 4 - r["left"]["sound"]
        assert (r["state"]["sound"], r["state"]["bad"]) == (4, 0)


@rounds(20, 400)
def test_killed_while_writing(faults: Faults, count: int) -> None:
    said = faults.run("killed_writing", "none", count)
    assert [s["bad"] for s in said] == [0] * len(said)
    assert all(s["leftover"] <= n + 1 for n, s in enumerate(said))
    assert said[-1]["sound"] > 0


@rounds(200, 20_000)
def test_evicted_while_others_read(faults: Faults, count: int) -> None:
    said = faults.run("evicted_while_reading", "none", count)
    assert sum(r["hits"] for r in said["readers"]) > 0
    assert sum(r["misses"] for r in said["readers"]) > 0
    assert sum(said["removed"]) > 0
    assert said["state"]["bad"] == 0


@one_driver
@rounds(2, 100)
def test_deleted_while_in_use(faults: Faults, driver: str, count: int) -> None:
    said = faults.run("deleted_in_use", driver, count)
    assert said["during"]["cache_misses"] == 4 * said["during"]["rounds"]
    assert said["after"][1]["cache_hits"] == 4
    assert said["state"]["bad"] == 0


@disk_free_driver
def test_no_room(faults: Faults, driver: str) -> None:
    said = faults.run("no_room", driver, 3)
    for during in said["during"]:
        assert (during["cache_misses"], during["cache_not_written"]) == (3, 3)
    assert said["between"] == {"sound": 0, "bad": 0, "leftover": 0}
    assert said["after"]["cache_misses"] == 3
    # Once in each of the two processes.
    assert faults.said.count("Kernels are compiled but not kept") == 2


@disk_free_driver
def test_read_only_folder_and_unreadable_entry(faults: Faults, driver: str) -> None:
    counted = faults.run("read_only", driver, 1)
    assert counted["cache_hits"] == 1
    assert counted["cache_damaged"] == 1
    assert (counted["cache_misses"], counted["cache_not_written"]) == (3, 3)
    assert faults.said.count("Kernels are compiled but not kept") == 1
    assert "no permission to write there" in faults.said


@one_driver
def test_full_disk(faults: Faults, driver: str) -> None:
    """A real file system without room, where one may be mounted."""
    faults.folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=0700", "tmpfs", str(faults.folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs privileges; test_no_room limits files")
    try:
        (faults.folder / "ballast").write_bytes(bytes(12 << 10))
        said = faults.run("processes", driver, 1)
        assert said["together"][0]["cache_misses"] == 4
        assert said["together"][0]["cache_not_written"] > 0
        assert said["state"]["bad"] == 0
        assert "the disk is full" in faults.said
    finally:
        subprocess.run(["umount", "-l", str(faults.folder)], check=True)
