"""The U-Net of latent diffusion (Rombach et al., arXiv 2112.10752), sized by its row.

Residual blocks that add a time embedding, and transformers with cross-attention on a context at
chosen levels: the layout of Stable Diffusion 2's U-Net.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchbench_configs.models.transformer import Attention


def time_embedding(time: Tensor, width: int) -> Tensor:
    """Cosines and sines of times (B,), (B, width)."""
    half = width // 2
    rates = torch.exp(-math.log(10000.0) * torch.arange(half, device=time.device) / half)
    angles = time[:, None] * rates.to(time.dtype)
    return torch.cat([angles.cos(), angles.sin()], dim=1)


class ResidualBlock(nn.Module):
    """Norm, SiLU, convolution, twice, with the time added in between."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        groups_in, groups_out = math.gcd(32, inputs), math.gcd(32, outputs)
        self.first_norm, self.second_norm = (
            nn.GroupNorm(groups_in, inputs),
            nn.GroupNorm(groups_out, outputs),
        )
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(F.silu(self.first_norm(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.second(F.silu(self.second_norm(y)))


class SpatialTransformer(nn.Module):
    """Self-attention over pixels, attention on the context, a gated feed-forward layer."""

    def __init__(self, width: int, head: int, context: int) -> None:
        super().__init__()
        heads = max(1, width // head)
        self.norm = nn.GroupNorm(math.gcd(32, width), width, eps=1e-6)
        self.enter, self.leave = nn.Linear(width, width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        options = {"bias": False, "out_bias": True, "fused": True}
        self.inner = Attention(width, heads, **options)  # type: ignore[arg-type]
        self.cross = Attention(width, heads, memory=context, **options)  # type: ignore[arg-type]
        self.gate, self.shrink = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        y = self.enter(self.norm(x).flatten(2).transpose(1, 2))
        y = y + self.inner(self.norms[0](y))
        y = y + self.cross(self.norms[1](y), context)
        value, gate = self.gate(self.norms[2](y)).chunk(2, dim=2)
        y = self.leave(y + self.shrink(value * F.gelu(gate)))
        return x + y.transpose(1, 2).unflatten(2, x.shape[2:])


class DiffusionUNet(nn.Module):
    """Latents (B, C, H, W), times (B,) and a context (B, S, context) to noise (B, C, H, W).

    ``attend`` says for each level whether its blocks attend to the context.
    """

    def __init__(
        self,
        channels: int = 4,
        widths: Sequence[int] = (320, 640, 1280, 1280),
        attend: Sequence[bool] = (True, True, True, False),
        blocks: int = 2,
        head: int = 64,
        context: int = 1024,
    ) -> None:
        super().__init__()
        first, time = widths[0], 4 * widths[0]
        self.first = first
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(channels, first, 3, padding=1)

        def step(inputs: int, outputs: int, level: int) -> nn.ModuleList:
            parts = nn.ModuleList([ResidualBlock(inputs, outputs, time)])
            if attend[level]:
                parts.append(SpatialTransformer(outputs, head, context))
            return parts

        skips, current = [first], first
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, width in enumerate(widths):
            for _ in range(blocks):
                self.down.append(step(current, width, level))
                current = width
                skips.append(current)
            if level + 1 < len(widths):
                self.down.append(nn.ModuleList([nn.Conv2d(current, current, 3, 2, 1)]))
                skips.append(current)
        self.middle = nn.ModuleList(
            [
                ResidualBlock(current, current, time),
                SpatialTransformer(current, head, context),
                ResidualBlock(current, current, time),
            ]
        )
        for level, width in reversed(list(enumerate(widths))):
            for _ in range(blocks + 1):
                self.up.append(step(current + skips.pop(), width, level))
                current = width
            if level:
                scale = nn.Upsample(scale_factor=2.0, mode="nearest")
                conv = nn.Conv2d(current, current, 3, padding=1)
                self.up.append(nn.ModuleList([nn.Sequential(scale, conv)]))
        self.norm = nn.GroupNorm(math.gcd(32, first), first)
        self.leave = nn.Conv2d(first, channels, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
        moment = self.time(time_embedding(time.to(x.dtype), self.first))
        x = self.enter(x)
        skips = [x]
        for parts in self.down:
            x = _run(parts, x, moment, context)
            skips.append(x)
        x = _run(self.middle, x, moment, context)
        for parts in self.up:
            if isinstance(parts[0], ResidualBlock):
                x = torch.cat([x, skips.pop()], dim=1)
            x = _run(parts, x, moment, context)
        return self.leave(F.silu(self.norm(x)))


def _run(parts: nn.ModuleList, x: Tensor, moment: Tensor, context: Tensor) -> Tensor:
    for part in parts:
        if isinstance(part, ResidualBlock):
            x = part(x, moment)
        elif isinstance(part, SpatialTransformer):
            x = part(x, context)
        else:
            x = part(x)
    return x
