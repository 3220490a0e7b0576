"""``python -m benchmarks.gpu.report LINES``: the lines of a GPU session as Markdown tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.line import OURS, read_lines

Line = dict[str, Any]


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """A Markdown table, with an empty line after it."""
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(x) for x in row) + " |"
    yield ""


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, as people write them."""
    return "" if value is None else f"{float(f'{value:.{digits}g}'):,.12g}"


def ratio(ours: float | None, theirs: float | None) -> str:
    return "" if not ours or not theirs else f"{ours / theirs:.2f}"


def of(lines: list[Line], part: str) -> list[Line]:
    return [x for x in lines if x["part"] == part]


def card(lines: list[Line]) -> Iterator[str]:
    """What the device is, and its roofs."""
    for x in of(lines, "device"):
        yield f"{x['name']}, driver {x['driver_version']}, {x['platform_version']}"
        yield ""
    rows: list[tuple[str, str]] = []
    for x in of(lines, "roof"):
        rows.append(("memory, OpenCL", f"{number(x['bandwidth_gb_s'])} GB/s"))
        rows.append(("float32 multiply-adds, OpenCL", f"{number(x['gflop_s'] / 1e3)} TFLOP/s"))
    for x in of(lines, "cuda copy"):
        rows.append(("memory, CUDA's copy", f"{number(x['gb_s'])} GB/s"))
    for x in of(lines, "cuda bus"):
        both = f"{number(x['up_gb_s'])} up, {number(x['down_gb_s'])} down, GB/s"
        rows.append((f"bus, CUDA, {x['memory']} memory", both))
    yield from table(("roof", ""), rows)


def arithmetic(lines: list[Line]) -> Iterator[str]:
    """Products and convolutions, by the type of their numbers."""
    for dtype in dict.fromkeys(x.get("dtype", "float32") for x in of(lines, "arithmetic")):
        own = [x for x in lines if x.get("dtype", "float32") == dtype]
        yield from _beside(own, "arithmetic", "tflop_s", ("TFLOP/s", "CUDA's"), dtype)


def memory(lines: list[Line]) -> Iterator[str]:
    """Kernels that memory bounds; the bytes are those of the operand and the result."""
    return _beside(lines, "memory", "gb_s", ("GB/s", "CUDA eager"))


def _beside(
    lines: list[Line], part: str, rate: str, names: tuple[str, str], dtype: str = "float32"
) -> Iterator[str]:
    """Rates of single kernels, ours and CUDA's."""
    rows = []
    for x in of(lines, part):
        ours, cuda = x[rate], x.get(f"cuda_{rate}")
        rows.append((x["case"], number(ours), number(cuda), ratio(ours, cuda)))
    return table((f"{dtype}, kernels alone", *names, "ratio"), rows)


def launches(lines: list[Line]) -> Iterator[str]:
    rows = [
        (x["case"], number(x["launches"]), number(x["us"]), number(x["kernels_us"]),
         number(x.get("cuda_us")))
        for x in of(lines, "launch")
    ]  # fmt: skip
    yield from table(("call of", "launches", "us", "kernels us", "CUDA eager us"), rows)


def networks(lines: list[Line]) -> Iterator[str]:
    """Calls and kernels of networks, by type; speed is CUDA's time over ours."""
    found: dict[tuple[str, str, bool], dict[str, Line]] = {}
    for x in of(lines, "network"):
        case = (x.get("dtype", "float32"), x["case"], x["training"])
        found.setdefault(case, {})[x["contender"]] = x
    rows = []
    for (dtype, case, training), by in found.items():
        eager, inductor = by.get("cuda-eager", {}), by.get("cuda-inductor", {})
        # What CUDA did where a session ended before our turn counts as well.
        for name in [n for n in OURS if n in by] or [""]:
            ours = by.get(name, {})
            rows.append(
                (case, dtype, "train" if training else "infer", name, number(ours.get("ms")),
                 number(ours.get("kernels_ms")), number(ours.get("launches")),
                 number(eager.get("ms")), number(inductor.get("ms")),
                 ratio(eager.get("ms"), ours.get("kernels_ms")),
                 ratio(eager.get("ms"), ours.get("ms")),
                 number(ours.get("first_s")), number(inductor.get("first_s")))
            )  # fmt: skip
    head = ("network", "type", "", "tensors", "call ms", "kernels ms", "launches", "CUDA eager ms",
            "CUDA Inductor ms", "speed, kernels", "speed, call", "first call s",
            "Inductor's")  # fmt: skip
    yield from table(head, rows)


def ways_to_launch(lines: list[Line]) -> Iterator[str]:
    """The host's time of a launch, by how many there are in a row."""
    rows: dict[str, dict[int, str]] = {}
    for x in of(lines, "way to launch"):
        both = f"{number(x['host_us'])}, {number(x['with_end_us'])}"
        rows.setdefault(x["way"], {})[x["in_a_row"]] = both
    bursts = sorted({n for found in rows.values() for n in found})
    head = ("us a launch, with its end", *(f"{n} in a row" for n in bursts))
    yield from table(head, ((way, *map(found.get, bursts)) for way, found in rows.items()))


def uncompiled(lines: list[Line]) -> Iterator[str]:
    """Programs without torch.compile: a round of them, and the host's part of an operator."""
    found: dict[str, dict[str, Line]] = {}
    for x in of(lines, "lazy"):
        found.setdefault(x["case"], {})[x["mode"]] = x
    modes = ("eager", "lazy", "cuda")
    rows = [
        (case, *(number(by.get(m, {}).get("round_us")) for m in modes),
         *(number(by.get(m, {}).get("host_us")) for m in modes))
        for case, by in found.items()
    ]  # fmt: skip
    head = ("a round, us", "eager on ocl", "lazy on ocl", "CUDA eager",
            "host us an operator, eager", "lazy", "CUDA")  # fmt: skip
    yield from table(head, rows)


def attention_tiles(lines: list[Line]) -> Iterator[str]:
    """Each problem's tiles, the chosen one first, then the fastest."""
    tiles: dict[tuple[str, str], list[Line]] = {}
    for x in of(lines, "attention"):
        tiles.setdefault((x["problem"], x["dtype"]), []).append(x)
    for (problem, dtype), found in tiles.items():
        found.sort(key=lambda x: (x["tile"] != "chosen", -x["tflop_s"]))
        rows = [
            (x["tile"], number(x["tflop_s"]), number(x.get("cuda_tflop_s")), number(x["units_off"]))
            for x in found
        ]
        yield from table((f"{problem}, {dtype}", "TFLOP/s", "CUDA's", "units off"), rows)


def first_calls(lines: list[Line]) -> Iterator[str]:
    """First calls with empty and full caches, and where their kernels came from."""
    rows = [
        (x["case"], x["dtype"], x["cache"], number(x["first_s"]), number(x["second_s"]),
         ", ".join(f"{name} {n}" for name, n in x["counts"].items() if n))
        for x in of(lines, "warm")
    ]  # fmt: skip
    head = ("first call", "type", "caches", "first, s", "second, s", "counts")
    yield from table(head, rows)


def failures(lines: list[Line]) -> Iterator[str]:
    for x in of(lines, "failed"):
        case, who = x.get("case", ""), x.get("contender", "")
        yield f"* failed: {x.get('of')} {case} {who}: {x['message']}"
    for x in of(lines, "part"):
        if x["how"] != "0":
            yield f"* part {x['name']} ended: {x['how']} after {x['seconds']:.0f} s"


_PARTS = (card, arithmetic, memory, launches, attention_tiles, networks, ways_to_launch,
          first_calls, uncompiled, failures)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path)
    lines = read_lines(parser.parse_args().lines)
    for part in _PARTS:
        print("\n".join(part(lines)))


if __name__ == "__main__":
    main()
