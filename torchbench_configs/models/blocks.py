"""Building blocks that several models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

Norm = Callable[[int], nn.Module]
"""Makes a normalisation for a number of channels."""


def conv_block(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    *,
    padding: int | None = None,
    norm: Norm | None = nn.BatchNorm2d,
    act: nn.Module | None = None,
    bias: bool | None = None,
    reflect: bool = False,
    groups: int = 1,
) -> nn.Sequential:
    """Convolution, normalisation, activation (ReLU unless given; ``nn.Identity()`` for none).

    Padding keeps the size at stride 1 unless given. A bias is left out before a norm unless asked
    for. ``reflect`` mirrors the border instead of filling it with zeros.
    """
    padding = kernel // 2 if padding is None else padding
    use_bias = norm is None if bias is None else bias
    layers: list[nn.Module] = []
    if reflect:
        layers.append(nn.ReflectionPad2d(padding))
        padding = 0
    layers.append(nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=use_bias, groups=groups))
    if norm is not None:
        layers.append(norm(outputs))
    layers.append(nn.ReLU(inplace=True) if act is None else act)
    return nn.Sequential(*layers)


def mlp(
    sizes: Sequence[int], act: Callable[[], nn.Module] = nn.ReLU, last: nn.Module | None = None
) -> nn.Sequential:
    """Linear layers of these sizes with ``act`` between them and ``last`` at the end."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), act()]
    layers.pop()
    if last is not None:
        layers.append(last)
    return nn.Sequential(*layers)


class Residual(nn.Module):
    """``x + body(x)``."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def residual_block(
    channels: int, norm: Norm, *, reflect: bool, bias: bool, dropout: float = 0.0
) -> Residual:
    """Two 3x3 convolutions of equal width and a shortcut, as generators of images use them."""
    first = conv_block(channels, channels, 3, norm=norm, bias=bias, reflect=reflect)
    if dropout:
        first.append(nn.Dropout(dropout))
    second = conv_block(
        channels, channels, 3, norm=norm, act=nn.Identity(), bias=bias, reflect=reflect
    )
    return Residual(nn.Sequential(first, second))


class BasicBlock(nn.Module):
    """The residual block of ResNet-18 and -34 (He et al., arXiv 1512.03385)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = conv_block(inputs, outputs, 3, stride)
        self.second = conv_block(outputs, outputs, 3, act=nn.Identity())
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = conv_block(inputs, outputs, 1, stride, act=nn.Identity())

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


def sinusoids(length: int, width: int) -> Tensor:
    """Sines and cosines of positions (arXiv 1706.03762, section 3.5), (length, width)."""
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2) * (-torch.log(torch.tensor(10000.0)) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table
