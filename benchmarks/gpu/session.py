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
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.gpu.line import OURS, line, read_lines, send_lines_to
from benchmarks.gpu.setup import arguments, passed_on
from ocl_inductor.support import child_process

NETWORKS = ("resnet50@16", "vgg16@16", "resnet18@16", "mobilenet_v2@16", "alexnet@16")
TEXTS = ("bert@4", "gpt2@2")
#: Most important first.
CASES = tuple(case + kind for case in (*NETWORKS, *TEXTS) for kind in ("", "/train"))
PARTS = ("doctor", "card", "bus", "svm", "attention", "prepare", "networks", "host", "warm", "lazy",
         "tests", "resident", "models", "conformance", "fuzz")  # fmt: skip
#: Networks whose training steps the host's part looks at.
_HOSTED = ("bert@4", "resnet18@16", "mobilenet_v2@16")
#: Seconds in which a part that was interrupted may say what it knows.
_LAST_WORDS = 10.0
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
        self.theirs: list[str] = parsed.theirs.split(",") if self.cuda else []
        self.dtype: str = parsed.dtype
        self.device: str = parsed.device
        self.memory: str = parsed.memory
        self.kernels: str = parsed.kernels
        self.hosted: list[str] = [x for x in parsed.hosted.split(",") if x]
        self.cases: list[str] = parsed.cases.split(",") if parsed.cases else list(CASES)

    def left(self, most: float) -> float:
        """Seconds for a part that may take ``most``."""
        return min(most, self.deadline - time.monotonic())

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A process in a group of its own; what it prints goes to the log."""
        log = (self.out / "log.txt").open("ab")
        log.write(f"\n===== {name}: {' '.join(command)}\n".encode())
        log.flush()
        given = {**os.environ, **(environment or {})}
        return child_process.start([sys.executable, *command], stdout=log, stderr=log, env=given)

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
        stop(list(pending.values()))
        for name in pending:
            self.ended(name, "time is up", start)

    def ended(self, name: str, how: str, start: float) -> None:
        line("part", name=name, how=how, seconds=time.monotonic() - start)

    def doctor(self) -> None:
        command = "from ocl_inductor.cli import main; main()"
        self.run("doctor", ["-c", command, "doctor"], 60)

    def card(self) -> None:
        command = ["-m", "benchmarks.gpu.card", "--kernels", self.kernels, *self.options]
        self.run("card", command, 120)

    def bus(self) -> None:
        self.run("bus", ["-m", "benchmarks.gpu.bus", *self.options], 60)

    def svm(self) -> None:
        self.run("svm", ["-m", "benchmarks.gpu.svm", *self.options], 60)

    def attention(self) -> None:
        """Tiles of attention: all are compiled first, several at a time."""
        command = ["-m", "benchmarks.gpu.attention", *self.options]
        parts = [f"{n}/{self.jobs}" for n in range(1, self.jobs + 1)]
        self.wait({
            f"tiles of attention {part}": self.start(f"tiles {part}", [
                *command, "--compile-only", "--part", part
            ])
            for part in parts
        }, 100)  # fmt: skip
        self.run("tiles of attention", command, 100)

    def warm(self) -> None:
        """First calls with empty and with full caches."""
        kept = ["--dtype", self.dtype, *self.options]
        self.run("warm", ["-m", "benchmarks.gpu.warm", *kept], 150)

    def host(self) -> None:
        """What the host does in training steps on ``ocl``."""
        kept = ["--dtype", self.dtype, *self.options]
        command = ["-m", "benchmarks.gpu.host", *self.hosted, *kept]
        self.run("host", command, 100)

    def lazy(self) -> None:
        """Programs without torch.compile, eagerly, lazily, and on CUDA."""
        for contender in ("ocl", "cuda") if self.cuda else ("ocl",):
            command = ["-m", "benchmarks.gpu.lazy", "--contender", contender, *self.options]
            self.run(f"lazy, {contender}", command, 100)

    def conformance(self) -> None:
        """All operators forward in float32, a few samples each; the rows in one file."""
        folder = self.out / "conformance"
        folder.mkdir(exist_ok=True)
        given = ["-m", "conformance", "--direction", "forward", "--dtype", "float32",
                 "--device", self.device, "--limit", "4", "--seconds", "5",
                 "--hang", "60"]  # fmt: skip
        for n in range(1, self.jobs + 1):
            (folder / f"{n}.jsonl").unlink(missing_ok=True)
        self.wait({
            f"conformance {n}": self.start(f"conformance {n}", [
                *given, "--part", f"{n}/{self.jobs}", "--results", str(folder / f"{n}.jsonl")
            ])
            for n in range(1, self.jobs + 1)
        }, 240)  # fmt: skip
        rows = sorted(x for path in folder.glob("*.jsonl") for x in path.open())
        (self.out / "conformance.jsonl").write_text("".join(rows))

    def fuzz(self) -> None:
        """Random programs, whose reproducers lie in the folder ``found``."""
        minutes = self.left(120) / 60 - 0.3
        given = ["-m", "fuzz", "--device", self.device, "--profile", "simt", "--no-simulator",
                 "--minutes", f"{minutes:.2f}", "--found", str(self.out / "found"),
                 "--json"]  # fmt: skip
        self.wait({
            f"fuzz {n}": self.start(f"fuzz {n}", [*given, "--seed", str(n)])
            for n in range(self.jobs)
        }, 120)  # fmt: skip

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
        others = [name for name in self.theirs if name == "cuda-eager"]
        # First who can compute references on the card: in float64 on the CPU they take minutes.
        # CUDA's autograd does not work in a process with the device `ocl`.
        turns = [",".join((*on_cpu, *others)), "ocl" if "ocl" in self.ours else ""]
        rest = [name for name in self.theirs if name not in others]
        for contenders in (*turns, *rest):
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

    def resident(self) -> None:
        """What is checked of tensors on ``ocl``, a process for each file."""
        environment = {
            "PYTHONPATH": f"tests/device:{os.environ.get('PYTHONPATH', '')}",
            "OCL_INDUCTOR_DEVICE": self.device,
            "OCL_INDUCTOR_MEMORY": self.memory,
        }
        flags = ["-v", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rfE",
                 "--tb", "short", "-o", "timeout=150"]  # fmt: skip
        self.wait({
            path.stem: self.start(path.stem, ["-m", "pytest", str(path), *flags], environment)
            for path in sorted(Path("tests/device").glob("ocl_*checks.py"))
        }, 200)  # fmt: skip

    def main(self, parts: Sequence[str]) -> None:
        for part in parts:
            match part:
                case "tests":
                    self.tests_part("tests", self.tests, 200)
                case "models":
                    self.tests_part("models", ["tests/models/test_models.py"], 100)
                case name:
                    getattr(self, name)()


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End parts: pytest still says what failed when it is interrupted."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    end = time.monotonic() + _LAST_WORDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, end - time.monotonic()))
        child_process.end_group(process)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    arguments(parser)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=480.0, help="for everything")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--cases", default="", help="networks, of the session's list")
    parser.add_argument("--kernels", default="*", help="patterns for names of single kernels")
    parser.add_argument("--hosted", default=",".join(_HOSTED), help="networks of the host's part")
    parser.add_argument("--ours", default=",".join(OURS), help="our contenders, of ocl and opencl")
    parser.add_argument("--theirs", default="cuda-eager,cuda-inductor", help="CUDA's contenders")
    parser.add_argument("--dtype", default="float32", help="of the networks' numbers")
    parser.add_argument("--tests", default=",".join(_ALL_TESTS), help="paths for pytest")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 2) - 4))
    parsed = parser.parse_args()
    parsed.out.mkdir(parents=True, exist_ok=True)
    send_lines_to(parsed.out / "lines.jsonl")
    Session(parsed).main(parsed.parts.split(","))


if __name__ == "__main__":
    main()
