"""DCGAN's discriminator, which is what TorchBench measures as ``dcgan`` (arXiv 1511.06434)."""

from __future__ import annotations

from torch import nn

from torchbench_configs.models.blocks import conv_block


def discriminator(width: int = 64) -> nn.Sequential:
    """(B, 3, 64, 64) images to (B, 1, 1, 1) probabilities."""
    leaky = [nn.LeakyReLU(0.2, inplace=True) for _ in range(4)]
    return nn.Sequential(
        conv_block(3, width, 4, 2, padding=1, norm=None, bias=False, act=leaky[0]),
        conv_block(width, 2 * width, 4, 2, padding=1, act=leaky[1]),
        conv_block(2 * width, 4 * width, 4, 2, padding=1, act=leaky[2]),
        conv_block(4 * width, 8 * width, 4, 2, padding=1, act=leaky[3]),
        nn.Conv2d(8 * width, 1, 4, bias=False),
        nn.Sigmoid(),
    )


def generator(latent: int = 100, width: int = 64) -> nn.Sequential:
    """(B, latent, 1, 1) noise to (B, 3, 64, 64) images."""
    layers: list[nn.Module] = []
    inputs, stride, padding = latent, 1, 0
    for factor in (8, 4, 2, 1):
        outputs = factor * width
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
        inputs, stride, padding = outputs, 2, 1
    return nn.Sequential(*layers, nn.ConvTranspose2d(inputs, 3, 4, 2, 1, bias=False), nn.Tanh())
