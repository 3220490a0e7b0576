"""``python -m benchmarks.gpu.session --out FOLDER``: everything, most important first, in a budget.

``tools/gpu_run.sh`` prepares a bare machine and starts this. Compiling, which needs the processor's
cores, is done for all networks at once; what is timed then runs alone. Each part is a process of
its own with a time limit, and a failure of one is a line too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.line import OURS, line, read_lines, send_lines_to
from benchmarks.gpu.setup import arguments, passed_on
from ocl_inductor.support import child_process

NETWORKS = ("resnet50@16", "vgg16@16", "resnet18@16", "mobilenet_v2@16", "alexnet@16")
TEXTS = ("bert@4", "gpt2@2")
#: Most important first.
CASES = tuple(case + kind for case in (*NETWORKS, *TEXTS) for kind in ("", "/train"))
PARTS = ("doctor", "card", "bus", "svm", "prepare", "networks", "host", "tests", "models")
#: Networks whose training steps the host's part looks at.
_HOSTED = ("bert@4", "resnet18@16", "mobilenet_v2@16")
_ALL_TESTS = ("tests/device",)


class Session:
    """The parts, with one deadline for all of them."""

    def __init__(self, parsed: argparse.Namespace) -> None:
        self.options = passed_on(parsed)
        self.out: Path = parsed.out
        self.deadline = time.monotonic() + parsed.seconds
        self.jobs: int = parsed.jobs
        self.tests: list[str] = parsed.tests.split(",")
        self.cuda: bool = not parsed.without_cuda
        self.ours: str = parsed.ours
        self.dtype: str = parsed.dtype
        self.cases: list[str] = parsed.cases.split(",") if parsed.cases else list(CASES)

    def left(self, most: float) -> float:
        """Seconds for a part that may take ``most``."""
        return min(most, self.deadline - time.monotonic())

    def start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """A process in a group of its own; what it prints goes to the log."""
        log = (self.out / "log.txt").open("ab")
        log.write(f"\n===== {name}: {' '.join(command)}\n".encode())
        log.flush()
        return child_process.start([sys.executable, *command], stdout=log, stderr=log)

    def run(self, name: str, command: Sequence[str], most: float) -> None:
        """One part to its end, or to its limit; a line says how long it took."""
        self.wait({name: self.start(name, command)}, most)

    def wait(self, running: dict[str, subprocess.Popen[bytes]], most: float) -> None:
        """Wait for processes until all have ended; end what runs past ``most`` seconds."""
        start = time.monotonic()
        end = start + self.left(most)
        pending = dict(running)
        while pending and time.monotonic() < end:
            for name, process in list(pending.items()):
                if process.poll() is not None:
                    self.ended(name, str(process.returncode), start)
                    del pending[name]
            time.sleep(0.1)
        for name, process in pending.items():
            stop(process)
            self.ended(name, "time is up", start)

    def ended(self, name: str, how: str, start: float) -> None:
        line("part", name=name, how=how, seconds=time.monotonic() - start)

    def doctor(self) -> None:
        command = "from ocl_inductor.cli import main; main()"
        self.run("doctor", ["-c", command, "doctor"], 60)

    def card(self) -> None:
        self.run("card", ["-m", "benchmarks.gpu.card", *self.options], 120)

    def bus(self) -> None:
        self.run("bus", ["-m", "benchmarks.gpu.bus", *self.options], 60)

    def svm(self) -> None:
        self.run("svm", ["-m", "benchmarks.gpu.svm", *self.options], 60)

    def host(self) -> None:
        """What the host does in training steps on ``ocl``."""
        command = ["-m", "benchmarks.gpu.host", *_HOSTED, "--dtype", self.dtype, *self.options]
        self.run("host", command, 100)

    def prepare(self) -> None:
        """Fill the caches of all compilers for all networks, a few at a time."""
        queue = list(self.cases)
        end = time.monotonic() + self.left(150)
        running: dict[str, subprocess.Popen[bytes]] = {}
        while (queue or running) and time.monotonic() < end:
            running = {n: p for n, p in running.items() if p.poll() is None}
            while queue and len(running) < self.jobs:
                case = queue.pop(0)
                command = [*self.network([case]), "--compile-only", "--contenders", self.ours]
                running[case] = self.start(f"prepare {case}", command)
            time.sleep(0.2)
        self.wait(running, 0)

    def network(self, cases: Sequence[str]) -> list[str]:
        kept = ["--references", str(self.out / "references"), "--dtype", self.dtype]
        return ["-m", "benchmarks.gpu.network", *cases, *kept, *self.options]

    def networks(self) -> None:
        """What a contender does on all networks comes before the next contender."""
        on_cpu = [name for name in self.ours.split(",") if name != "ocl"]
        others = ["cuda-eager"] if self.cuda else []
        # First who can compute references on the card: in float64 on the CPU they take minutes.
        # CUDA's autograd does not work in a process with the device `ocl`.
        turns = [",".join((*on_cpu, *others)), "ocl" if "ocl" in self.ours else ""]
        for contenders in (*turns, "cuda-inductor" if self.cuda else ""):
            if contenders:
                self.all_networks(contenders)

    def all_networks(self, contenders: str) -> None:
        """One process for all networks, and another where it ends too soon."""
        rest = list(self.cases)
        while rest and self.left(20) >= 20:
            before = len(self.begun())
            command = [*self.network(rest), "--contenders", contenders]
            self.run(f"networks of {contenders}", command, 600)
            rest = rest[max(1, len(self.begun()) - before) :]

    def begun(self) -> list[object]:
        lines = self.out / "lines.jsonl"
        return [x for x in read_lines(lines) if x["part"] == "begin"] if lines.exists() else []

    def tests_part(self, name: str, paths: Sequence[str], most: float) -> None:
        """Each test's outcome is in the log as soon as it is known: a run may be cut off."""
        report = self.out / f"{name}.xml"
        command = ["-m", "pytest", *paths, "-v", "-n", str(self.jobs), "--dist", "worksteal",
                   "-m", "not slow", "--timeout", "120", "-rfE", "--tb", "short",
                   "--maxfail", "400", f"--junitxml={report}", "-p", "no:cacheprovider",
                   "-o", "junit_logging=no"]  # fmt: skip
        self.run(name, command, most)

    def main(self, parts: Sequence[str]) -> None:
        for part in parts:
            match part:
                case "tests":
                    self.tests_part("tests", self.tests, 200)
                case "models":
                    self.tests_part("models", ["tests/models/test_models.py"], 100)
                case name:
                    getattr(self, name)()


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a part: pytest still says what failed when it is interrupted."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    child_process.end_group(process)
    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    arguments(parser)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=480.0, help="for everything")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--cases", default="", help="networks, of the session's list")
    parser.add_argument("--ours", default=",".join(OURS), help="our contenders, of ocl and opencl")
    parser.add_argument("--dtype", default="float32", help="of the networks' numbers")
    parser.add_argument("--tests", default=",".join(_ALL_TESTS), help="paths for pytest")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 2) - 4))
    parsed = parser.parse_args()
    parsed.out.mkdir(parents=True, exist_ok=True)
    send_lines_to(parsed.out / "lines.jsonl")
    Session(parsed).main(parsed.parts.split(","))


if __name__ == "__main__":
    main()
