"""Factors and solutions of small matrices, which are far from singular."""

from __future__ import annotations

from fuzz.generator import Generator
from fuzz.program import NORM

_LINES = (
    "torch.linalg.inv({w})",
    "torch.linalg.cholesky({w})",
    "torch.linalg.solve({w},{b})",
    "torch.linalg.solve({w},{b}[...,0].unsqueeze(-1))",
    "torch.linalg.slogdet({w})[1]",
    "torch.linalg.det({w}/{scale})",
    "torch.linalg.qr({w})[1]",
    "torch.linalg.solve_triangular({w}.tril(),{b},upper=False)",
    "torch.linalg.solve_triangular({w}.triu().mT,{b},upper=False,unitriangular=False)",
    "torch.cholesky_solve({b},torch.linalg.cholesky({w}))",
    "torch.linalg.lu_factor({w})[0]",
)


def matrix(g: Generator) -> None:
    n = g.rng.choice((1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32))
    if g.special or (g.small and n > 5):
        return
    batch = g.rng.choice(([], [1], [3], [2, 3]))
    dtype = g.dtype if g.dtype in ("float32", "float64") else "float32"
    a = g.new([*batch, n, n], dtype, "normal")
    b = g.new([*batch, n, g.rng.choice((1, 2, 5))], dtype, g.finite())
    # The eigenvalues of the product are between 0 and about 4 n.
    w = f"({a}@{a}.mT+{n}*torch.eye({n},dtype=torch.{dtype}))"
    g.emit(g.rng.choice(_LINES).format(w=w, b=b, scale=2 * n), NORM)
