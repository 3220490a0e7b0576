"""Writing to inputs, views and intermediate results; inputs that are views of one another."""

from __future__ import annotations

import torch

from fuzz.families.pointwise import other
from fuzz.generator import Generator
from fuzz.program import EXACT, FUNCTION, ROUND, SUM


def mutate(g: Generator) -> None:
    x = g.pick(lambda t: t.is_floating_point()) or g.pick()
    if x is None or g.lies_in_overlapping(x):
        return
    value = g.value(x)
    if not value.is_floating_point():
        y = g.rng.choice(("1", "3"))
        g.exact(f"{x}.{g.rng.choice(('add_', 'mul_', 'fill_', 'sub_'))}({y})", 0)
        return
    y = other(g, x)
    number = g.rng.choice(("0.5", "2", "-1"))
    d = g.dim(x)
    condition = g.new([1 if g.chance(0.2) else n for n in value.shape], "bool")
    spare = g.pick(lambda t: t.shape == value.shape and t.dtype == value.dtype)
    index = f"({g.new([2], 'int64', layout='dense')}%{x}.shape[0])" if value.dim() else "0"
    choices = [
        # The name that is written comes first: noise.py goes by that.
        (f"({x},torch.add({spare},{y},out={x}))", ROUND),
        (f"({x},torch.sigmoid({spare},out={x}))", FUNCTION),
        (f"{x}.index_fill_(0,{index},{number})", EXACT),
        (f"{x}.index_add_(0,{index},{x}[:1].repeat_interleave(2,0))", SUM),
        (f"{x}.index_put_(({index},),{x}.sum(),accumulate=True)", SUM),
        (f"{x}.masked_scatter_({condition},{x}.flip({d}).clone())", EXACT),
        (f"{x}.narrow({d},0,1).copy_({x}.select({d},-1).unsqueeze({d}).clone())", EXACT),
        (f"{x}.mT.sub_({number})", ROUND),
        (f"{x}[:1].addcmul_({x}[:1],{x}[:1].clone(),value=0.5)", FUNCTION),
        (f"{x}.cumsum_({d})", SUM),
        (f"{x}.add_({y})", ROUND),
        (f"{x}.mul_({number})", ROUND),
        (f"{x}.sub_({y})", ROUND),
        (f"{x}.copy_({y})", EXACT),
        (f"{x}.copy_({x}.flip({d}))", EXACT),
        (f"{x}.zero_()", EXACT),
        (f"{x}.relu_()", EXACT),
        (f"{x}.clamp_(-1,1)", EXACT),
        (f"{x}.sigmoid_()", FUNCTION),
        (f"{x}.masked_fill_({condition},{number})", EXACT),
        (f"{x}[...,::2].mul_({number})", ROUND),
        (f"{x}[...,1:].copy_({x}[...,:-1].clone())", EXACT),
        (f"{x}.select({d},-1).fill_({number})", EXACT),
        (f"{x}.diagonal().add_({number})", ROUND),
        (f"{x}.t_()", EXACT),
        (f"{x}.flatten().zero_()", EXACT),
        (f"{x}.lerp_({y},0.25)" if y in g.env else f"{x}.neg_()", FUNCTION),
    ]
    text, rounding = g.rng.choice(choices)
    if y not in g.env and f"copy_({y})" in text:
        return
    g.emit(text, rounding, 0)


def aliased_input(g: Generator) -> None:
    names = [i.name for i in g.inputs if not i.grad and not i.alias]
    if not names:
        return
    x = g.rng.choice(names)
    value: torch.Tensor = g.value(x)
    d = g.dim(x)
    texts = (f"{x}.view_as({x})", f"{x}[1:]", f"{x}.t()", f"{x}.select({d},0)", f"{x}[...,::2]")
    g.alias(g.rng.choice(texts) if value.dim() else f"{x}.view(1)")
