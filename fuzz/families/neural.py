"""Pooling, resizing, normalisations, losses, attention."""

from __future__ import annotations

import torch

from fuzz.generator import Generator
from fuzz.program import EXACT, NORM, SUM


def pool(g: Generator) -> None:
    x = g.pick(lambda t: t.is_floating_point() and t.dim() in (3, 4, 5) and 0 not in t.shape)
    if x is None:
        x = g.new([g.rng.choice((1, 2)), g.rng.choice((1, 3, 5)), g.size() or 1, g.size() or 1])
    rank = g.value(x).dim() - 2
    k = g.rng.randint(1, 4)
    stride, pad = g.rng.randint(1, 3), g.rng.randint(0, k // 2)
    ceil = g.chance(0.3)
    choices = [
        (f"F.max_pool{rank}d({x},{k},{stride},{pad},ceil_mode={ceil})", EXACT, 1),
        (f"F.max_pool{rank}d({x},{k},{stride},{pad},return_indices=True)", EXACT, 2),
        (f"F.avg_pool{rank}d({x},{k},{stride},{pad},ceil_mode={ceil})", SUM, 1),
        (f"F.avg_pool{rank}d({x},{k},{stride},{pad},count_include_pad=False)", SUM, 1),
        (f"F.adaptive_avg_pool{rank}d({x},{g.rng.randint(1, 5)})", SUM, 1),
        (f"F.adaptive_max_pool{rank}d({x},{g.rng.randint(1, 5)})", EXACT, 1),
        (f"F.interpolate({x},scale_factor=2.0,mode='nearest')", EXACT, 1),
        (f"F.interpolate({x},scale_factor=1.5,mode='nearest-exact')", EXACT, 1),
        (f"F.interpolate({x},size={[5, 7, 3][:rank]},mode='area')", SUM, 1),
    ]
    if rank == 1:
        choices.append((f"F.interpolate({x},size=9,mode='linear')", NORM, 1))
    if rank == 3:
        choices.append((f"F.interpolate({x},size=(3,5,2),mode='trilinear')", NORM, 1))
    if rank == 2:
        corners = g.chance(0.5)
        choices += [
            (f"F.interpolate({x},size=(5,7),mode='bilinear',align_corners={corners})", NORM, 1),
            (f"F.interpolate({x},size=(6,4),mode='bicubic',align_corners={corners})", NORM, 1),
            (f"F.unfold({x},{k},padding={pad},stride={stride})", EXACT, 1),
            (f"F.pixel_unshuffle({x},2)", EXACT, 1),
            (f"F.pixel_shuffle({x}.repeat(1,4,1,1),2)", EXACT, 1),
            (f"F.fold(F.unfold({x},2,padding=1),{x}.shape[-2:],2,padding=1)", SUM, 1),
            (_sampled(g, x), NORM, 1),
        ]
        if not (g.backward and g.special):  # in eager weights of 0 carry NaN to the neighbours
            text = f"F.interpolate({x},size=(3,5),mode='bilinear',antialias=True)"
            choices.append((text, NORM, 1))
    g.emit(*g.rng.choice(choices))


def _sampled(g: Generator, x: str) -> str:
    """``grid_sample`` at multiples of 1/8, and in between."""
    value = g.value(x)
    grid = g.new([value.shape[0], 4, 3, 2], str(value.dtype)[6:], "normal")
    mode = g.rng.choice(("bilinear", "bicubic"))
    padding = g.rng.choice(("zeros", "border"))
    return f"F.grid_sample({x},{grid},mode='{mode}',padding_mode='{padding}',align_corners=False)"


def normalise(g: Generator) -> None:
    x = g.floating(min_rank=1)
    value = g.value(x)
    dtype, d, last = str(value.dtype)[6:], g.dim(x), value.shape[-1]
    which = g.rng.randrange(12)
    if which == 10:
        g.emit(f"F.glu({x},{d})", NORM)
    elif which == 11 and value.dim() > 2:
        names = ("F.instance_norm({x})", "F.local_response_norm({x},3)")
        g.emit(g.rng.choice(names).format(x=x), NORM)
    elif which < 3:
        name = g.rng.choice(("softmax", "log_softmax", "softmin"))
        g.emit(f"F.{name}({x},{d})", NORM)
    elif which == 3:
        # Where weights are infinite it depends on the formula which elements of a gradient are NaN.
        affine = ""
        if g.chance(0.6):
            affine = f",{g.new([last], dtype, g.finite())},{g.new([last], dtype)}"
        g.emit(f"F.layer_norm({x},[{x}.shape[-1]]{affine})", NORM)
    elif which == 4:
        weight = f",{g.new([last], dtype, g.finite())}" if g.chance(0.6) else ""
        g.emit(f"F.rms_norm({x},[{x}.shape[-1]]{weight})", NORM)
    elif which == 5 and value.dim() > 1:
        c = value.shape[1]
        training = g.chance(0.5)
        stats = f"{g.new([c], dtype, grad=False, layout='dense')},"
        stats += g.new([c], dtype, "positive", grad=False, layout="dense")
        if training and g.chance(0.4):
            stats = "None,None"
        # Eager multiplies the mean by the weight first: infinities that it subtracts then.
        affine = "None,None"
        if g.chance(0.7):
            affine = f"{g.new([c], dtype, g.finite())},{g.new([c], dtype)}"
        g.emit(f"F.batch_norm({x},{stats},{affine},training={training})", NORM)
    elif which == 6 and value.dim() > 1:
        c = value.shape[1]
        groups = g.rng.choice([k for k in range(1, min(c, 16) + 1) if c % k == 0])
        g.emit(f"F.group_norm({x},{groups})", NORM)
    elif which == 7:
        g.emit(f"F.normalize({x},dim={d})", NORM)
    elif which == 8 and value.dim() == 2 and last:
        target = g.new([value.shape[0]], "int64")
        made = g.exact(f"{target}%{x}.shape[1]")
        if made is not None:
            how = g.rng.choice(("mean", "sum", "none"))
            smooth = g.rng.choice((0.0, 0.1))
            g.emit(
                f"F.cross_entropy({x},{made[0]},reduction='{how}',label_smoothing={smooth})", NORM
            )
    elif value.dim() in (3, 4) and 0 not in value.shape:
        shape = list(value.shape)
        shape[-2] = g.rng.choice((1, 3, 7, 8, 17, 33))
        causal = g.chance(0.3)
        # What is masked counts in eager with a weight of 0, of which an infinity makes NaN.
        k, v = g.new(shape, dtype), g.new(shape, dtype, *([g.finite()] if causal else []))
        # Of a row whose scores are NaN eager makes 0 in some kernels.
        tame = "nan_to_num(0.5).clamp(-4,4)"
        x, k = f"{x}.{tame}", f"{k}.{tame}"
        if value.dtype is not torch.float64 or value.dim() == 4:
            g.emit(f"F.scaled_dot_product_attention({x},{k},{v},is_causal={causal})", NORM)
