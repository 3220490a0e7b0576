"""The painting actor of Huang et al., "Learning to Paint" (arXiv 1903.04411).

A ResNet-18 that maps canvas, target, step and coordinates to five strokes of thirteen parameters.
The renderer and the critic are left out, as in dynamobench.
"""

from __future__ import annotations

from torch import nn

from torchbench_configs.models.blocks import BasicBlock, conv_block


def actor(inputs: int = 9, outputs: int = 65) -> nn.Sequential:
    """(B, 9, 128, 128) to (B, 65) numbers in 0..1."""
    layers: list[nn.Module] = [conv_block(inputs, 64, 3, 2)]
    width = 64
    for outer in (64, 128, 256, 512):
        layers += [BasicBlock(width, outer, 2), BasicBlock(outer, outer, 1)]
        width = outer
    head = (nn.AvgPool2d(4), nn.Flatten(), nn.Linear(width, outputs), nn.Sigmoid())
    return nn.Sequential(*layers, *head)
