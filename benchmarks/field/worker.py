"""The measuring process: ``python -m benchmarks.field.worker <job as JSON>``.

It writes the lines of its cell itself, as soon as they are known. Standard output is for progress.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings

from benchmarks.field.lines import Lines
from ocl_inductor.sweep.process.child import (
    claim_stdout,
    depend_on_parent,
    emitter,
    is_out_of_memory,
    short_message,
)


def main() -> None:
    warnings.filterwarnings("ignore")
    emit = emitter(claim_stdout())
    depend_on_parent()
    job = json.loads(sys.argv[1])
    lines = Lines.of_dict(job["lines"])
    table = importlib.import_module(f"benchmarks.field.{lines.facts['table']}")
    try:
        table.measure(job, lines, lambda text: emit("progress", text=text))
    except Exception as error:
        # The line is this process's: the exit status says only that there was an error.
        status, message = "oom" if is_out_of_memory(error) else "error", short_message(error)
        lines.write(status, **job["facts"], message=message)
        emit("failed", status=status, message=message)


if __name__ == "__main__":
    main()
