"""What eager refuses must be refused when compiled: ``python -m conformance.refusals``.

PyTorch's lists say for each operator which arguments it refuses (``error_inputs``). Prints those
for which numbers come back instead, or an error of another type than eager's.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch

from conformance.operators import operators

#: Arguments that are not refused, or otherwise than by eager, with the reason.
KNOWN = Path(__file__).with_name("not_refused.txt")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One call that eager refuses; ``number`` counts those of its operator."""

    op: str
    number: int
    call: Any
    error: Exception

    @property
    def name(self) -> str:
        return f"{self.op} {self.number}"

    def accepted(self, options: dict[str, Any]) -> str:
        """What happens instead of the refusal when it is compiled; "" where it is refused.

        Dynamo tells what its shape functions refuse as an error of its own (TorchRuntimeError).
        """
        torch._dynamo.reset()
        try:
            torch.compile(self.call, backend="opencl", dynamic=False, options=options)()
        except torch._dynamo.exc.BackendCompilerFailed as error:
            inner = error.inner_exception
            return "" if isinstance(inner, type(self.error)) else f"in the backend: {inner!r}"[:150]
        except torch._dynamo.exc.TorchDynamoException:
            return ""
        except Exception as error:
            wanted, got = type(self.error), type(error)
            return "" if isinstance(error, wanted) else f"{got.__name__}, not {wanted.__name__}"
        return "accepted"


def refusals(only: Sequence[str] = ()) -> Iterator[Refusal]:
    """Every call of the list that eager on the CPU refuses, of operators with these full names."""
    for name, operator in operators().items():
        entry = operator.entry
        if entry.error_inputs_func is None or (only and name not in only):
            continue
        for number, case in enumerate(entry.error_inputs("cpu")):
            sample = case.sample_input
            call = _call(entry.get_op(), (sample.input, *sample.args), dict(sample.kwargs))
            try:
                call()
            except Exception as error:
                yield Refusal(name, number, call, error)


def _call(function: Any, args: Any, kwargs: Any) -> Any:
    return lambda: function(*args, **kwargs)


def known() -> dict[str, str]:
    """Names in ``not_refused.txt``, with what happens instead."""
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return dict(line.split("\t") for line in lines)


@click.command()
@click.argument("only", nargs=-1)
@click.option("--device", help="Device, as options={'device': ...} takes it.")
@click.option("--update", is_flag=True, help="Write what is found to conformance/not_refused.txt.")
def main(only: Sequence[str], device: str | None, update: bool) -> None:
    """Compile what eager refuses, of all operators or of those named ONLY.

    Ends with status 1 where something is found that conformance/not_refused.txt does not have.
    """
    warnings.filterwarnings("ignore")
    found: dict[str, str] = {}
    kinds: Counter[str] = Counter()
    for refusal in refusals(only):
        what = refusal.accepted({"device": device} if device else {})
        kinds["accepted" if what == "accepted" else "otherwise" if what else "refused"] += 1
        if what:
            found[refusal.name] = what
            message = next(iter(str(refusal.error).splitlines()), "")
            click.echo(f"{refusal.name}\t{what}\t{type(refusal.error).__name__}: {message[:150]}")
    click.echo(f"{kinds.total()} calls that eager refuses: {dict(kinds)}")
    if update:
        KNOWN.write_text("".join(f"{name}\t{what}\n" for name, what in found.items()))
        return
    sys.exit(1 if found.keys() - known().keys() else 0)


if __name__ == "__main__":
    main()
