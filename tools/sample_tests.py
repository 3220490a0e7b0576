"""Chooses how many cases of each test function `make test` runs: tests/sampled_cases.json.

    python -m pytest tests -n 2 -m "" --junitxml report.xml      # on a quiet machine, 2 cores
    python tools/sample_tests.py report.xml

A function whose cases take more than SECONDS in all on the first driver runs one in so many of them
that the rest take about as long, and at least one in MOST. `make test-all` runs every case.
Functions that the report does not have stay as they are: the checks of ``ocl``
(tests/device/ocl_*), which run in processes of their own, have reports of their own.
"""

from __future__ import annotations

import argparse
import json
import math
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SECONDS, MOST, FEWEST_CASES = 2.5, 6, 3
TABLE = Path(__file__).parents[1] / "tests/sampled_cases.json"
#: All cases of these run: whole models and exact ratchets; what needs no OpenCL is quick.
WHOLE = ("tests.models", "tests.null")
#: Cases of other drivers are sampled before (tests/slow_cases.py).
OTHER_DRIVERS = ("pocl", "rusticl")


def durations(report: Path) -> Iterable[tuple[str, str, float]]:
    """The test function ("test_file.py::test_function"), case and seconds of each test that ran."""
    for case in ET.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            function, _, parameters = case.attrib["name"].partition("[")
            folder, _, file = case.attrib["classname"].rpartition(".")
            if folder in WHOLE:
                continue
            yield f"{file}.py::{function}", parameters, float(case.attrib["time"])


def shares(cases: Iterable[tuple[str, str, float]]) -> dict[str, int]:
    """Of which functions one case in so many runs."""
    found: dict[str, list[float]] = defaultdict(list)
    for function, parameters, seconds in cases:
        if not any(driver in parameters for driver in OTHER_DRIVERS):
            found[function].append(seconds)
    return {
        function: min(math.ceil(sum(times) / SECONDS), MOST, len(times))
        for function, times in found.items()
        if sum(times) > SECONDS and len(times) >= FEWEST_CASES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path, help="what pytest --junitxml wrote")
    cases = list(durations(parser.parse_args().report))
    seen = {function for function, _, _ in cases}
    others = {k: n for k, n in json.loads(TABLE.read_text()).items() if k not in seen}
    found = others | shares(cases)
    TABLE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{len(found)} functions in {TABLE}")


if __name__ == "__main__":
    main()
