"""What a kernel's instructions say: how much of its hottest loop is arithmetic, how wide its loads
are, how much 64-bit arithmetic its addresses take.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    name: str
    operands: str


@dataclass(frozen=True)
class Listing:
    """Instructions in order, and the loops among them: from the target of a jump back to it."""

    instructions: list[Instruction]
    loops: list[tuple[int, int]]


@dataclass(frozen=True)
class Reading:
    """Counts of one kernel.

    Attributes:
        fma: float multiply-adds in the loop that has the most, without the loops inside it.
        loop: all instructions there; 0 where no loop has any.
        loads: from global memory.
        wide: those of at least 64 bits a work-item.
        address64: vector instructions of 64-bit integer arithmetic.
    """

    fma: int
    loop: int
    loads: int
    wide: int
    address64: int


@dataclass(frozen=True)
class _Isa:
    parse: Callable[[str], Listing]
    fma: Callable[[Instruction], bool]
    load: Callable[[Instruction], bool]
    wide: Callable[[Instruction], bool]
    address64: Callable[[Instruction], bool]


def read(text: str, isa: str) -> Reading:
    """Count. ``isa``: a key of ``ISAS``."""
    known = ISAS[isa]
    listing = known.parse(text)
    code = listing.instructions
    fma, loop = 0, 0
    for own in _own(listing):
        found = sum(known.fma(code[i]) for i in own)
        if (found, -len(own)) > (fma, -loop) and found:
            fma, loop = found, len(own)
    loads = [x for x in code if known.load(x)]
    wide, address64 = sum(map(known.wide, loads)), sum(map(known.address64, code))
    return Reading(fma, loop, len(loads), wide, address64)


def _own(listing: Listing) -> list[list[int]]:
    """Of each loop, the instructions that are in no loop inside it."""
    # Two jumps back to one place are one loop.
    ends: dict[int, int] = {}
    for first, last in listing.loops:
        ends[first] = max(last, ends.get(first, last))
    found = []
    for first, last in ends.items():
        inside = set(range(first, last + 1))
        for a, b in ends.items():
            if first < a and b <= last:
                inside -= set(range(a, b + 1))
        found.append(sorted(inside))
    return found


def _amdgcn(text: str) -> Listing:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        line = line.split(";")[0].rstrip()
        label = re.match(r"(\.?[A-Za-z_][\w.$]*):", line)
        if label:
            labels[label[1]] = len(code)
            continue
        # gfx11 issues two operations in one instruction; each counts.
        for part in line.split("::"):
            found = re.match(r"\s+([a-z]\w*)\s*(.*)", part)
            if found:
                code.append(Instruction(found[1], found[2].strip()))
    jumps = [
        (i, x.operands) for i, x in enumerate(code) if x.name.startswith(("s_cbranch", "s_branch"))
    ]
    return Listing(code, [(labels[to], i) for i, to in jumps if labels.get(to, i + 1) <= i])


def _sass(text: str) -> Listing:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        label = re.match(r"\s*(\.L_x_\d+):", line)
        if label:
            labels[label[1]] = len(code)
            continue
        found = re.match(
            r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", line
        )
        if found:
            code.append(Instruction(found[1], found[2]))
    loops = []
    for i, x in enumerate(code):
        to = re.search(r"\.L_x_\d+", x.operands) if x.name.startswith("BRA") else None
        # After a kernel's end comes a jump to itself.
        if to is not None and labels.get(to[0], i) < i:
            loops.append((labels[to[0]], i))
    return Listing(code, loops)


def _xe(text: str) -> Listing:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        label = re.match(r"\s*(L\d+):\s*$", line)
        if label:
            labels[label[1]] = len(code)
            continue
        found = re.match(r"\s*(?:\(W[^)]*\)\s*|\([^)]*\)\s*)*([a-z][\w.]*)\s+(\S.*)", line)
        if found:
            code.append(Instruction(found[1], found[2]))
    loops = []
    for i, x in enumerate(code):
        if x.name.split(".")[0] in ("while", "jmpi", "goto"):
            targets = re.findall(r"\bL\d+\b", x.operands.split("//")[0])
            loops += [(labels[t], i) for t in targets if labels.get(t, i + 1) <= i]
    return Listing(code, loops)


def _named(pattern: str) -> Callable[[Instruction], bool]:
    matches = re.compile(pattern).match
    return lambda x: bool(matches(x.name))


def _xe_wide(x: Instruction) -> bool:
    """What comes back (``rd``, registers of 32 bytes), by work-item of the thread."""
    lanes = re.match(r"\((\d+)\|", x.operands)
    registers = re.search(r"\brd:(\d+)", x.operands)
    assert lanes is not None and registers is not None, x
    return int(registers[1]) * 32 >= int(lanes[1]) * 8


def _xe_load(x: Instruction) -> bool:
    """Not of local memory (its surface is 254), nor of registers that were put away."""
    said = re.search(
        r"0x[0-9A-F]{6}([0-9A-F]{2}) .*// .*(?:surface|scattered|gathering) read", x.operands
    )
    return said is not None and said[1] != "FE"


ISAS: dict[str, _Isa] = {
    "amdgcn": _Isa(
        _amdgcn,
        _named(
            r"v_(pk_|dual_)?(fma|mac|fmac|mad|fmaak|fmamk|fma_mix\w*|mad_mix\w*)_?\w*f(16|32|64)"
        ),
        _named(r"(global|flat|buffer)_load"),
        _named(r"\w+_load_(dwordx[234]|b(64|96|128))"),
        _named(
            r"v_(add_co|addc_co|add_co_ci|sub_co|mad_u64|mad_i64|lshlrev_b64|ashrrev_i64|lshl_add_u64)"
        ),
    ),
    "sass": _Isa(
        _sass,
        _named(r"[FHD]FMA|HMMA"),  # a matrix instruction counts as one
        _named(r"LDG|LD\.E"),
        _named(r"\w+\.(E\.)?.*\b(64|128)\b"),
        _named(r"IMAD\.WIDE|IADD3\.X|IMAD\.X|LEA\.HI\.X|SHF\.[LR]\.[US]64"),
    ),
    "xe": _Isa(
        _xe,
        lambda x: x.name == "mad" and bool(re.search(r":(f|hf|df)\b", x.operands)),
        _xe_load,
        _xe_wide,
        # These GPUs have no 64-bit integers: halves are added with a carry.
        lambda x: x.name in ("addc", "subb") or bool(re.search(r":u?q\b", x.operands)),
    ),
}
