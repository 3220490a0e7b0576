"""What a table has found so far: a file of JSON lines, each complete as soon as it is known.

Every line says on which machine, with which driver, versions and commit, and when its table was
begun, so that lines of several machines can be put together. The first one of a run has the whole
environment.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.line import read_lines
from ocl_inductor.device.select import select_device
from ocl_inductor.sweep.process.child import finite
from ocl_inductor.sweep.process.environment import describe


@dataclass(frozen=True, slots=True)
class Lines:
    """A file to append to, and the facts that are in every line."""

    path: Path
    facts: dict[str, Any]

    def write(self, status: str = "ok", **values: Any) -> None:
        """Append a line; numbers that are not finite become null."""
        text = json.dumps({**self.facts, "status": status, **finite(values)})
        with self.path.open("a") as file:
            file.write(text + "\n")

    def read(self) -> list[dict[str, Any]]:
        """The lines of this run, without the one of the environment."""
        ours = {"table": self.facts["table"], "date": self.facts["date"]}
        return [
            line
            for line in read_lines(self.path)
            if ours.items() <= line.items() and line["status"] != "environment"
        ]

    def as_dict(self) -> dict[str, Any]:
        """For a child process's job; ``of_dict`` takes it."""
        return asdict(self) | {"path": str(self.path)}

    @staticmethod
    def of_dict(values: dict[str, Any]) -> Lines:
        return Lines(Path(values["path"]), values["facts"])


def begin(table: str, folder: Path, device: str | None) -> Lines:
    """The file ``folder/table.jsonl`` with a first line about the environment.

    Raises:
        NoDeviceError, DeviceNotFoundError: see ``select_device``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chosen, found = select_device(device), describe()
    cpu, packages = dict(found["cpu"]), dict(found["packages"])  # type: ignore[call-overload]
    facts = {
        "table": table,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": cpu.get("model", cpu["machine"]),
        "cores": cpu.get("usable_cores", cpu["cores"]),
        "device": chosen.info.name,
        "kind": chosen.info.kind,
        "shared_memory": chosen.info.shared_memory,
        "driver": f"{chosen.short_name} {chosen.info.driver_version}",
        "versions": {name: packages.get(name) for name in ("torch", "ocl-inductor")},
        "commit": found["commit"],
    }
    lines = Lines(folder / f"{table}.jsonl", facts)
    lines.write("environment", environment=found)
    return lines
