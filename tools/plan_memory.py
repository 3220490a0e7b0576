"""Scratch memory of each model's plans beside the least that is possible.

``python tools/plan_memory.py`` prints what ``tests/models/plan_ratchet.json`` has on record, which
``tests/models/test_plan_ratchet.py`` holds the compiler to: no plan may be more than 5 % above.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ocl_inductor.support.units import format_size

RECORD = Path(__file__).parents[1] / "tests" / "models" / "plan_ratchet.json"


def rows() -> list[dict[str, Any]]:
    """One a model and kind; bytes of all its graphs together."""
    found = []
    for model, kinds in sorted(json.loads(RECORD.read_text()).items()):
        for kind, numbers in sorted(kinds.items()):
            planned, bound = numbers["peak_bytes"], numbers["lower_bound_bytes"]
            found.append(
                {
                    "model": model,
                    "kind": kind,
                    "planned_bytes": planned,
                    "lower_bound_bytes": bound,
                    "ratio": round(planned / bound, 4) if bound else 1.0,
                }
            )
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(as_json: bool) -> None:
    """Scratch memory planned for the small variant of each model of the zoo."""
    found = rows()
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        table = Table("model", "kind", box=None)
        for title in ("planned", "lower bound", "ratio"):
            table.add_column(title, justify="right")
        for r in found:
            sizes = [format_size(r[k]) for k in ("planned_bytes", "lower_bound_bytes")]
            table.add_row(r["model"], r["kind"], *sizes, f"{r['ratio']:.3f}")
        Console().print(table)
        at_bound = sum(r["ratio"] == 1.0 for r in found)
        click.echo(f"{at_bound} of {len(found)} are at the lower bound")


if __name__ == "__main__":
    main()
