"""Elementwise lines."""

from __future__ import annotations

import torch

from fuzz.generator import FLOATS, INTEGERS, Generator
from fuzz.program import CANCELS, EXACT, FUNCTION, ROUND

_EXACT = (
    "torch.abs({x}) -{x} torch.relu({x}) torch.floor({x}) torch.ceil({x}) torch.trunc({x}) "
    "torch.round({x}) torch.sign({x}) F.relu6({x}) F.hardtanh({x}) torch.clone({x}) "
    "torch.nan_to_num({x}) torch.signbit({x}) torch.isfinite({x}) torch.isnan({x}) "
    "F.threshold({x},0.5,-1.0) torch.positive({x}) torch.isinf({x}) torch.clamp_min({x},-0.5)"
).split()
_ROUND = "torch.square({x}) torch.frac({x}) {x}*2 {x}+1 1-{x} {x}-0.5 {x}*0.25".split()
_CANCELS = (
    "F.gelu({x}) F.gelu({x},approximate='tanh') F.mish({x}) F.tanhshrink({x}) "
    "torch.digamma({x}.abs()+0.5) torch.polygamma(1,{x}.abs()+0.5) torch.special.bessel_j0({x}) "
    "torch.special.bessel_j1({x}) torch.special.log_ndtr({x}) "
    "torch.special.ndtri(torch.clamp({x},-4,4)/10+0.5) torch.special.ndtr({x}) "
    "torch.special.i0e({x}.clamp(-9,9)) torch.special.i1e({x}.clamp(-9,9)) "
    "torch.special.erfcx({x}.abs()) torch.sinc({x})"
).split()
_FUNCTIONS = (
    "torch.exp(torch.clamp({x},-8,8)) torch.sin({x}) torch.cos({x}) torch.tanh({x}) "
    "torch.sigmoid({x}) torch.erf({x}) torch.sqrt({x}.abs()) torch.rsqrt({x}.abs()+0.5) "
    "torch.log({x}.abs()+0.5) F.silu({x}) "
    "F.hardswish({x}) F.softplus({x}) F.elu({x}) F.leaky_relu({x},0.1) F.selu({x}) "
    "F.celu({x}) F.softsign({x}) F.logsigmoid({x}) F.hardsigmoid({x}) torch.atan({x}) "
    "torch.asinh({x}) torch.expm1(torch.clamp({x},-4,4)) torch.log1p({x}.abs()) "
    "torch.reciprocal({x}.abs()+0.5) torch.acos(torch.clamp({x},-0.75,0.75)) torch.erfc({x}) "
    "torch.asin(torch.clamp({x},-0.75,0.75)) torch.sinh(torch.clamp({x},-4,4)) "
    "torch.cosh(torch.clamp({x},-4,4)) torch.tan(torch.clamp({x},-1,1)) torch.exp2({x}.clamp(-9,9))"
    " torch.log2({x}.abs()+0.5) torch.log10({x}.abs()+0.5) torch.pow({x}.abs(),1.5)"
    " torch.pow({x},3) torch.deg2rad({x}) torch.lgamma({x}.abs()+0.5) {x}/3 "
    "torch.logit({x},0.125) torch.special.i0({x}) torch.special.entr({x}.abs()) "
    "torch.atanh(torch.clamp({x},-0.75,0.75)) torch.erfinv(torch.clamp({x},-0.75,0.75)) "
    "torch.special.i1({x}) torch.mvlgamma({x}.abs()+1.5,2) F.hardshrink({x},0.25) "
    "F.softshrink({x},0.25) torch.ldexp({x},torch.tensor(3)) torch.special.expit({x})"
).split()


def unary(g: Generator) -> None:
    x = g.floating()
    texts, rounding = g.rng.choices(
        ((_EXACT, EXACT), (_ROUND, ROUND), (_CANCELS, CANCELS), (_FUNCTIONS, FUNCTION)),
        (6, 4, 1, 8),
    )[0]
    g.emit(g.rng.choice(texts).format(x=x), rounding)


def other(g: Generator, x: str, dtype: str | None = None) -> str:
    """A tensor that broadcasts with ``x``, or a number."""
    value = g.value(x)
    if g.chance(0.15):
        return g.rng.choice(("2", "3", "-1", "0.5"))
    if g.chance(0.45):
        wanted = value.is_floating_point()

        def fits(t: torch.Tensor) -> bool:
            same = t.is_floating_point() == wanted and (t.dtype is not torch.bool)
            pairs = zip(reversed(t.shape), reversed(value.shape))
            return same and all(a == b or a == 1 or b == 1 for a, b in pairs)

        found = g.pick(fits)
        if found is not None:
            return found
    shape = [1 if g.chance(0.25) else n for n in value.shape]
    shape = shape[g.rng.randint(0, len(shape)) if g.chance(0.2) else 0 :]
    if g.chance(0.1) and value.numel() < 2000:
        shape = [g.rng.choice((1, 2, 3)), *([1] * (value.dim() - len(shape))), *shape]
    return g.new(shape, dtype or str(value.dtype)[6:])


def binary(g: Generator) -> None:
    x = g.floating()
    dtype = g.rng.choice(FLOATS) if g.chance(0.15) else None
    y = other(g, x, dtype)
    if y[0] != "i" and y[0] != "t":
        g.emit(g.rng.choice(("{x}+{y}", "{x}*{y}", "{y}-{x}", "{x}-{y}")).format(x=x, y=y), ROUND)
        return
    texts, rounding = g.rng.choices(
        (
            (("{x}+{y}", "{x}*{y}", "{x}-{y}", "torch.add({x},{y},alpha=2)", "{y}-{x}"), ROUND),
            (("torch.maximum({x},{y})", "torch.minimum({x},{y})", "torch.fmax({x},{y})"), EXACT),
            (
                (
                    "{x}/({y}.abs()+0.5)",
                    "torch.atan2({x},{y}.abs()+0.5)",
                    "torch.fmod({x},{y}.abs()+0.5)",
                    "torch.remainder({x},{y}.abs()+0.5)",
                    "torch.hypot({x},{y})",
                    "torch.logaddexp({x},{y})",
                    "torch.xlogy({x},{y}.abs()+0.5)",
                    "torch.copysign({x},{y})",
                    "F.mse_loss({x},{y})",
                    "F.smooth_l1_loss({x},{y},reduction='none')",
                    "torch.heaviside({x},{y})",
                    "torch.floor_divide({x},{y}.abs()+0.5)",
                    "torch.fmin({x},{y})",
                    "torch.logaddexp2({x},{y})",
                    "torch.rsub({x},{y},alpha=2)",
                    "torch.special.xlog1py({x},{y}.abs())",
                    # Where powers vanish eager multiplies 0 with infinity.
                    "torch.special.zeta({x}.abs().clamp(max=20)+1.5,{y}.abs()+0.5)",
                    "torch.pow({x}.abs()+0.5,{y}.clamp(-3,3))",
                    "F.prelu({x},torch.full((1,),0.25,dtype={x}.dtype))",
                ),
                FUNCTION,
            ),
            (
                (
                    "torch.lerp({x},{y},0.25)",
                    "torch.addcmul({x},{x},{y},value=0.5)",
                    "torch.addcdiv({x},{x},{y}.abs()+1)",
                ),
                CANCELS,
            ),
        ),
        (12, 4, 7, 1),
    )[0]
    g.emit(g.rng.choice(texts).format(x=x, y=y), rounding)


def integer(g: Generator) -> None:
    x = g.pick(lambda t: not t.is_floating_point())
    if x is None or g.chance(0.1):
        x = g.new(g.shape(), g.rng.choice((*INTEGERS, "bool")))
    if g.value(x).dtype is torch.bool:
        y = g.new([1 if g.chance(0.2) else n for n in g.value(x).shape], "bool")
        texts = (
            "{x}&{y} {x}|{y} {x}^{y} ~{x} torch.logical_xor({x},{y}) {x}.int()+{y} {x}*3".split()
        )
        g.exact(g.rng.choice(texts).format(x=x, y=y))
        return
    y = other(g, x, g.rng.choice(INTEGERS) if g.chance(0.3) else None)
    if y == "0.5":
        y = "5"
    texts = [
        *"{x}+{y} {x}-{y} {x}*{y} torch.maximum({x},{y}) torch.minimum({x},{y}) {x}&{y}".split(),
        *"{x}|{y} {x}^{y} ~{x} torch.abs({x}) -{x} torch.sign({x}) torch.square({x})".split(),
        *"torch.logical_and({x},{y}) torch.logical_not({x}) {x}.bool()".split(),
        *"{x}//{d} torch.remainder({x},{d}) torch.fmod({x},{d}) {x}<<({y}&7)".split(),
        *"{x}>>({y}&7) torch.gcd({x},{y}) {x}/{d} torch.pow({x}&3,3)".split(),
        "torch.clamp({x},0,5)",
        "torch.div({x},{d},rounding_mode='trunc')",
    ]
    if not isinstance(g.env.get(y), torch.Tensor):
        texts = [t for t in texts if "gcd" not in t and "logical_and" not in t and "imum" not in t]
    # Never 0, and never -1, by which the smallest integer divided is a crash of eager's.
    d = g.rng.choice((f"({y}&6|1)", f"({y}&6|1)*-3"))
    g.emit(g.rng.choice(texts).format(x=x, y=y, d=f"({d})"), ROUND)


def comparison(g: Generator) -> None:
    x = g.pick() or g.floating()
    if g.value(x).dtype is torch.bool:
        return
    y = other(g, x)
    text = g.rng.choice(("<", "<=", ">", ">=", "==", "!="))
    g.exact(f"{x}{text}{y}")


def selection(g: Generator) -> None:
    x = g.floating()
    if g.chance(0.3):
        low, high = g.rng.choice((("-1", "1"), ("None", "0.5"), ("-0.25", "None"), ("0.5", "-0.5")))
        g.exact(f"torch.clamp({x},{low},{high})")
        return
    shape = list(g.value(x).shape)

    def fits(t: torch.Tensor) -> bool:
        pairs = zip(reversed(t.shape), reversed(shape))
        return t.dtype is torch.bool and all(a == b or a == 1 or b == 1 for a, b in pairs)

    condition = g.pick(fits) or g.new([1 if g.chance(0.2) else n for n in shape], "bool")
    if g.chance(0.3):
        filler = g.rng.choice(("0", "-1.5", "-float('inf')"))
        g.exact(f"{x}.masked_fill({condition},{filler})")
        return
    y = other(g, x)
    x, y = (y, x) if g.chance(0.5) else (x, y)
    g.exact(f"torch.where({condition},{x},{y})")


def cast(g: Generator) -> None:
    x = g.pick() or g.floating()
    value = g.value(x)
    dtype = g.rng.choice((*FLOATS, *FLOATS, *INTEGERS, "bool"))
    target = getattr(torch, dtype)
    if value.dtype is target:  # that would be no copy
        return
    if value.is_floating_point() and not target.is_floating_point and dtype != "bool":
        # Elsewhere the conversion is undefined.
        low = 0 if dtype == "uint8" else -100
        x = f"torch.nan_to_num({x}).clamp({low},100)"
    g.emit(f"{x}.to(torch.{dtype})", ROUND)
