"""The figures of one case on one device, and which way each is better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Figures:
    """Sums over the kernels of a case, unless something else is said.

    Attributes:
        kernels: different ones; not judged.
        failures: kernels that a compiler refuses or the device cannot run, calls of the host.
        spilled: registers in memory, in the compiler's unit.
        private: memory of a work-item (Intel: of a thread), bytes.
        registers: of the kernel with the most.
        occupancy: percent, of the kernel with the least.
        fma: percent of the instructions of the hottest loop of the kernel with the most
            operations; None where no template computes it, or there is no such loop.
        wide: percent of the loads that fetch 64 bits or more for a work-item; None without loads.
        address64: instructions of 64-bit integers.
        starved: launches that leave compute units idle.
        strided: buffers whose memory is used in small part, by launch.
    """

    kernels: int
    failures: int
    spilled: int
    private: int
    registers: int
    occupancy: int
    fma: int | None
    wide: int | None
    address64: int
    starved: int
    strided: int

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Rule:
    """How a figure is judged.

    Attributes:
        sign: 1 where more is worse, -1 where less is.
        slack: by so much it may be worse: compilers order instructions by small changes.
        share: the same, as a share of the figure.
        compiled: it depends on the compiler, and says nothing about another version's code.
    """

    sign: int
    slack: int = 0
    share: float = 0.0
    compiled: bool = True

    def worse(self, now: int | None, was: int | None) -> bool:
        if was is None:
            return False
        if now is None:  # no loop of multiply-adds any more, no loads
            return self.sign < 0
        return self.sign * (now - was) > self.slack + self.share * was

    def better(self, now: int | None, was: int | None) -> int | None:
        """The better of both; what is there now, where one of them is None."""
        if now is None or was is None:
            return now
        return self.sign * min(self.sign * now, self.sign * was)


RULES: dict[str, Rule] = {
    "failures": Rule(1, compiled=False),
    "spilled": Rule(1),
    "private": Rule(1),
    "registers": Rule(1, slack=4),
    "occupancy": Rule(-1),
    "fma": Rule(-1, slack=1),
    "wide": Rule(-1, slack=1),
    "address64": Rule(1, slack=4, share=0.05),
    "starved": Rule(1, compiled=False),
    "strided": Rule(1, compiled=False),
}
assert set(RULES) | {"kernels"} == {f.name for f in fields(Figures)}


def worse(now: Figures, was: Figures, same_compiler: bool) -> Iterator[str]:
    """What got worse, in words."""
    for name, rule in RULES.items():
        a, b = getattr(now, name), getattr(was, name)
        if (same_compiler or not rule.compiled) and rule.worse(a, b):
            yield f"{name} {b} -> {a}"


def best(now: Figures, was: Figures) -> Figures:
    """Each figure as good as it has been."""
    kept = {name: r.better(getattr(now, name), getattr(was, name)) for name, r in RULES.items()}
    return Figures(kernels=now.kernels, **kept)  # type: ignore[arg-type]
