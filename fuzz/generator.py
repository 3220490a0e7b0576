"""Makes programs, line by line: each line runs in eager at once, and stays if that goes well."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as F

from fuzz.program import EXACT, FUNCTION, Input, Program, Sizes, Step, names_in
from fuzz.run import run

SIZES = (0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 67, 100, 128, 129, 257, 1000, 1031, 4099)
SMALL = (1, 2, 3, 4, 5, 7, 8)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
LAYOUTS = ("offset", "reversed", "last", "gaps", "expanded", "windows")

#: Of programs with large tensors; two are primes.
LARGE = (4099, 16384, 65537, 100_003, 131_072, 262_145)

#: Elements of the largest tensor, and the largest magnitude that a line may reach in a type.
LARGEST, LARGEST_OF_ALL = 40_000, 400_000
MAGNITUDE = {torch.float16: 1e3, torch.bfloat16: 1e5, torch.float32: 1e6, torch.float64: 1e8}

Family = Callable[["Generator"], None]


class Generator:
    """A program in the making. ``env`` holds every name's value in eager."""

    def __init__(self, rng: random.Random, *, small: bool = False) -> None:
        self.rng = rng
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self.env: dict[str, Any] = {"torch": torch, "F": F}
        self.dynamic = rng.random() < 0.2 and not small
        self.backward = rng.random() < 0.3 and not small
        self.special = rng.random() < 0.1
        self.small = small
        self.large = rng.random() < 0.04 and not (small or self.dynamic)
        self.limit = 600 if small else LARGEST_OF_ALL if self.large else LARGEST
        self.dtype = rng.choices(FLOATS, (10, 2, 2, 2))[0]
        sizes = rng.sample([s for s in SIZES if s < 200], 5)
        self.sizes: Sizes = dict(zip("ABCDE", sizes)) if self.dynamic else {}

    # -- choices

    def size(self) -> int:
        if self.dynamic and self.rng.random() < 0.7:
            return self.rng.choice(list(self.sizes.values()))
        if self.small:
            return self.rng.choice((1, 2, 3, 5, 7, 9))
        return self.rng.choice(SMALL if self.rng.random() < 0.6 else SIZES)

    def shape(self, rank: int | None = None) -> list[int]:
        rank = self.rng.choices(range(6), (1, 4, 8, 5, 4, 1))[0] if rank is None else rank
        while True:
            shape = [self.size() for _ in range(rank)]
            if self.large and rank:
                shape[self.rng.randrange(rank)] = self.rng.choice(LARGE)
            if _count(shape) <= self.limit:
                return shape

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # -- names

    def tensors(self, accept: Callable[[torch.Tensor], bool]) -> list[str]:
        return [
            k
            for k, v in self.env.items()
            if isinstance(v, torch.Tensor) and k[1:].isdigit() and accept(v)
        ]

    def pick(self, accept: Callable[[torch.Tensor], bool] = lambda t: True) -> str | None:
        """A name, late ones rather than early ones."""
        names = self.tensors(accept)
        if not names:
            return None
        return names[-1] if self.chance(0.5) else self.rng.choice(names)

    def floating(self, min_rank: int = 0) -> str:
        """A float tensor, a new one if need be."""
        name = self.pick(lambda t: t.is_floating_point() and t.dim() >= min_rank)
        if name is not None and not self.chance(0.08):
            return name
        return self.new(self.shape(max(min_rank, self.rng.randint(1, 4))), self.dtype)

    def value(self, name: str) -> torch.Tensor:
        value: torch.Tensor = self.env[name]
        return value

    def dim(self, name: str) -> int:
        """A dimension, counted from either end."""
        rank = self.value(name).dim()
        return self.rng.randrange(-rank, rank) if rank else self.rng.choice((0, -1))

    def dims(self, name: str) -> list[int]:
        rank = self.value(name).dim()
        some = self.rng.sample(range(rank), self.rng.randint(min(1, rank), rank))
        return [d - rank if self.chance(0.3) else d for d in some]

    # -- growth

    def finite(self) -> str:
        """A kind of values without infinities and NaN."""
        return self.rng.choices(("lattice", "normal", "positive"), (5, 4, 2))[0]

    def new(
        self,
        shape: Sequence[int],
        dtype: str | None = None,
        kind: str | None = None,
        layout: str | None = None,
        grad: bool | None = None,
    ) -> str:
        """A new input of this shape."""
        name = f"i{len(self.inputs)}"
        dtype = dtype or self.dtype
        floating = getattr(torch, dtype).is_floating_point
        if kind is None:
            kind = self.finite()
            if self.special and self.chance(0.5):
                kind = "special"
            if not floating and self.chance(0.15):
                kind = "extreme"
        if layout is None:
            layout = self.rng.choice(LAYOUTS) if self.chance(0.35) else "dense"
        if grad is None:
            grad = self.backward and floating and self.chance(0.8)
        letters = {v: k for k, v in self.sizes.items()}
        dims = tuple(letters.get(n, n) for n in shape)
        seed = self.rng.randrange(10_000)
        made = Input(name, dims, dtype, kind, layout, seed, bool(grad and floating))
        self._add(made)
        return name

    def _add(self, made: Input) -> None:
        self.inputs.append(made)
        self.env[made.name] = made.make(self.sizes, self.env, wide=False)

    def lies_in_overlapping(self, x: str) -> bool:
        """Whether it is a view of an input whose elements share memory, here or at other sizes."""
        storage = self.value(x).untyped_storage().data_ptr()
        shared = [i.name for i in self.inputs if i.layout in ("expanded", "windows")]
        return any(self.value(k).untyped_storage().data_ptr() == storage for k in shared)

    def alias(self, text: str) -> str | None:
        """A new input that is a view of an earlier one."""
        name = f"i{len(self.inputs)}"
        # Views are inputs: they see what the program has not done yet.
        fresh = {i.name for i in self.inputs}
        if not fresh or any(not s.targets for s in self.steps):
            return None
        with suppress(Exception):
            made = Input(name, alias=text)
            if isinstance(made.make(self.sizes, self.env, wide=False), torch.Tensor):
                self._add(made)
                return name
        return None

    def emit(self, text: str, rounding: str = FUNCTION, targets: int = 1) -> list[str] | None:
        """Add ``text`` with as many results, or do nothing where eager or good taste refuses."""
        used = sum(len(s.targets) for s in self.steps)
        names = tuple(f"t{used + k}" for k in range(targets))
        step = Step(text, names, rounding)
        try:
            exec(step.line, self.env)
        except Exception:
            self._undo(names, written=not targets)
            return None
        # A step that writes defines nothing.
        seen = [self.env[n] for n in (*names, *step.reads) if n in self.env]
        if all(self._fine(x) for x in seen):
            self.steps.append(step)
            return list(names)
        self._undo(names, written=not targets)
        return None

    def _undo(self, names: Sequence[str], written: bool) -> None:
        for name in names:
            self.env.pop(name, None)
        if not written:
            return
        # Memory was written: begin again.
        self.env = {"torch": torch, "F": F}
        for i in self.inputs:
            self.env[i.name] = i.make(self.sizes, self.env, wide=False)
        for step in self.steps:
            exec(step.line, self.env)

    def _fine(self, x: Any) -> bool:
        if not isinstance(x, torch.Tensor):
            return isinstance(x, int | float | bool)
        if (
            x.numel() > max(self.limit, LARGEST) * 2
            or x.layout is not torch.strided
            or x.is_complex()
        ):
            return False
        if not x.is_floating_point() or self.special or not x.numel():
            return True
        top = x.detach().abs().max().item()
        return top <= MAGNITUDE.get(x.dtype, 0.0)

    def exact(self, text: str, targets: int = 1) -> list[str] | None:
        return self.emit(text, EXACT, targets)

    # -- the whole

    def program(self) -> Program | None:
        made = self.tensors(lambda t: True)
        made = [n for n in made if n.startswith("t")]
        if not made:
            return None
        read = {r for s in self.steps for r in s.reads}
        outputs = [n for n in made if n not in read] or made[-1:]
        outputs += [n for n in made if n in read and self.chance(0.2)]
        if self.chance(0.05):
            outputs.append(self.rng.choice([i.name for i in self.inputs]))
        used = read | set(outputs) | {n for i in self.inputs for n in names_in(i.alias)}
        inputs = tuple(i for i in self.inputs if i.name in used)
        tables: tuple[Sizes, ...] = (self.sizes,)
        program = Program(
            inputs, tuple(self.steps), tuple(outputs), tables, self.dynamic, self.backward
        )
        if self.backward and not _runs(program):  # eager has no gradient for something in it
            without = tuple(replace(i, grad=False) for i in inputs)
            program = replace(program, inputs=without, backward=False)
        return self._with_other_sizes(program) if self.dynamic else program

    def _with_other_sizes(self, program: Program) -> Program:
        """A second table of sizes on which eager runs too, if one is found."""
        for _ in range(4):
            other = {k: self.rng.choice(SIZES[1:-3]) for k in self.sizes}
            with suppress(Exception):
                shapes = [i.shape(other) for i in program.inputs]
                if any(_count(s) > LARGEST for s in shapes):
                    continue
                run(program, program.function(), other)
                return replace(program, sizes=(self.sizes, other))
        return program


def _runs(program: Program) -> bool:
    with suppress(Exception):
        run(program, program.function(), program.sizes[0])
        return True
    return False


def _count(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= max(n, 1)
    return count


def generate(seed: int, number: int, *, small: bool = False) -> Program | None:
    """Program ``number`` of ``seed``: the same one each time."""
    from fuzz.families import FAMILIES, LINEAR

    g = Generator(random.Random(f"{seed}/{number}"), small=small)
    g.new(g.shape())
    if g.chance(0.4):
        g.new(g.shape(), g.rng.choice((*FLOATS, *INTEGERS, "bool")))
    steps = g.rng.randint(1, 4) if small else g.rng.randint(1, 9)
    # Elsewhere the size of a result may be the square of what it reads.
    families, weights = zip(*[f for f in FAMILIES if not g.large or f[0] in LINEAR])
    for _ in range(4 * steps):
        if len(g.steps) >= steps:
            break
        with suppress(IndexError):  # nothing to choose from
            g.rng.choices(families, weights)[0](g)
    return g.program()
