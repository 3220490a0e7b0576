"""What is on record: ``ratchet.jsonl``, a line a compiler and a line a case and device.

Figures only get better: ``merged`` keeps the best that each has been, and what is to be worse on
purpose is named (``accept``), so that a change of the file shows it.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_check.figures import Figures, best, worse

PATH = Path(__file__).with_name("ratchet.jsonl")


@dataclass
class Ratchet:
    """Figures by device and case, families by case, and the compilers they are of."""

    compilers: dict[str, str] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    rows: dict[tuple[str, str], Figures] = field(default_factory=dict)


def read_ratchet(path: Path = PATH) -> Ratchet:
    """Empty where there is no file."""
    found = Ratchet()
    if not path.exists():
        return found
    for line in path.read_text().splitlines():
        row = json.loads(line)
        device = row.pop("device")
        if "compiler" in row:
            found.compilers[device] = row["compiler"]
            continue
        case = row.pop("case")
        found.families[case] = row.pop("family")
        found.rows[device, case] = Figures(**row)
    return found


def write_ratchet(ratchet: Ratchet, path: Path = PATH) -> None:
    lines = [
        json.dumps({"device": device, "compiler": name})
        for device, name in ratchet.compilers.items()
    ]
    for (device, case), figures in ratchet.rows.items():
        known = {"device": device, "case": case, "family": ratchet.families[case]}
        lines.append(json.dumps({**known, **figures.as_row()}))
    path.write_text("\n".join(lines) + "\n")


def complaints(now: Ratchet, record: Ratchet) -> Iterator[str]:
    """What is worse than on record, a line a case and device."""
    for key, figures in now.rows.items():
        device, case = key
        if key not in record.rows:
            yield f"{device} {case}: not on record; --update adds it"
            continue
        same = now.compilers[device] == record.compilers.get(device)
        found = list(worse(figures, record.rows[key], same))
        if found:
            yield f"{device} {case}: {', '.join(found)}"


def improved(now: Ratchet, record: Ratchet) -> list[tuple[str, str]]:
    """Rows with a figure that is better than on record, by the same compiler."""
    return [
        key
        for key, figures in now.rows.items()
        if key in record.rows
        and now.compilers[key[0]] == record.compilers.get(key[0])
        and list(worse(record.rows[key], figures, True))
    ]


def merged(now: Ratchet, record: Ratchet, accept: Sequence[str], known: Iterable[str]) -> Ratchet:
    """The record with what got better, what is new, and what was accepted as it is now.

    ``accept``: patterns for names of cases. ``known``: the cases that there are. The figures of
    another version of a compiler replace those of the earlier one.
    """
    known = list(known)
    families = {**record.families, **now.families}
    result = Ratchet(
        {**record.compilers, **now.compilers}, {c: f for c, f in families.items() if c in known}
    )
    order = sorted(
        {*record.rows, *now.rows},
        key=lambda key: (list(result.compilers).index(key[0]), _place(key[1], known)),
    )
    for device, case in order:
        key = (device, case)
        if case not in known:
            continue
        if key not in now.rows:
            result.rows[key] = record.rows[key]
        elif (
            key not in record.rows
            or any(fnmatch.fnmatch(case, p) for p in accept)
            or now.compilers[device] != record.compilers[device]
        ):
            result.rows[key] = now.rows[key]
        else:
            result.rows[key] = best(now.rows[key], record.rows[key])
    return result


def _place(case: str, known: Sequence[str]) -> int:
    return known.index(case) if case in known else len(known)
