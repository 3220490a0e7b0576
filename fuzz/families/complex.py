"""Complex numbers between real ones: each line takes real tensors and gives one."""

from __future__ import annotations

from fuzz.generator import Generator
from fuzz.program import EXACT, NORM, SUM

_LINES: dict[str, tuple[str, ...]] = {
    NORM: (
        "torch.view_as_real({z}*{w})",
        "({z}*{w}.conj()).real",
        "({z}.conj()*{x}).imag",
        "torch.view_as_real({z}/({w}.abs()+1))",
        "torch.view_as_real(torch.exp({z}*0.25))",
        "torch.view_as_real(torch.tanh({z}*0.25))",
        "torch.polar({x}.abs(),{y}).imag",
        "({z}-{w}).abs().square()",
        "torch.view_as_real(torch.where({x}>0,{z},{w}))",
        "torch.view_as_real({z}.mH.contiguous()*0.5) if {x}.dim()==2 else {z}.real",
    ),
    SUM: (
        "torch.view_as_real({z}.sum({d}))",
        "{z}.cumsum({d}).imag",
        "torch.view_as_real({z}.mean({d},keepdim=True))",
        "torch.view_as_real({z}@{w}.mH)",
    ),
    EXACT: (
        "torch.view_as_real({z}.transpose(0,-1))",
        "torch.view_as_real({z}.flip({d}).conj().resolve_conj())",
        "torch.view_as_real(torch.cat([{z},{w}.conj()],{d}))",
        "{z}.conj().imag",
    ),
}

_SPECTRA = (
    "torch.view_as_real(torch.fft.rfft({x},dim={d},norm={norm}))",
    "torch.fft.irfft(torch.fft.rfft({x},dim={d})*{c},n={n},dim={d})",
    "torch.fft.fft({z},dim={d},norm={norm}).real",
    "torch.fft.ifft({z},dim={d}).imag",
    "torch.view_as_real(torch.fft.fft({z},n={m},dim={d}))",
    "torch.fft.fftshift(torch.fft.fft2({x}).real)",
)


def _operands(g: Generator) -> dict[str, object] | None:
    """Texts for the lines; complex tensors have parts of float32 or float64, and no infinities:
    of these each implementation has its own products."""
    x = g.floating(min_rank=1)
    value = g.value(x)
    dtype = str(value.dtype)[6:]
    if g.special or dtype not in ("float32", "float64") or 0 in value.shape:
        return None
    y = g.pick(lambda t: t.shape == value.shape and t.dtype is value.dtype)
    if y in (None, x) or g.chance(0.5):  # of equal parts sums cancel in all runs, with noise too
        y = g.new(value.shape, dtype)
    d = g.dim(x)
    return {
        "x": x,
        "y": y,
        "z": f"torch.complex({x},{y})",
        "w": f"torch.complex({y},{x})",
        "d": d,
        "n": value.shape[d],
        "m": g.rng.choice((value.shape[d], 1, 5, 16)),
        "c": g.rng.choice(("0.5", "2", "1j", "(1+1j)")),
        "norm": g.rng.choice(("'backward'", "'ortho'", "'forward'")),
    }


def numbers(g: Generator) -> None:
    if (found := _operands(g)) is not None:
        rounding = g.rng.choice(list(_LINES))
        g.emit(g.rng.choice(_LINES[rounding]).format(**found), rounding)


def spectrum(g: Generator) -> None:
    if (found := _operands(g)) is not None:
        g.emit(g.rng.choice(_SPECTRA).format(**found), NORM)
