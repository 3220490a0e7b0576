"""Super SloMo: video frames in between two (Jiang et al., arXiv 1712.00080).

Two U-Nets for flow and its refinement, backward warping, and the paper's four losses. Simplified:
one time for the whole batch instead of one a sample.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.sweep.vision_import import import_torchvision


def _convs(*layers: tuple[int, int, int]) -> nn.Sequential:
    """Convolutions (inputs, outputs, kernel) that keep the size, each with a leaky ReLU."""
    modules: list[nn.Module] = []
    for inputs, outputs, kernel in layers:
        modules += [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.LeakyReLU(0.1)]
    return nn.Sequential(*modules)


class FlowNet(nn.Module):
    """The paper's U-Net: five levels down by average pooling, five up bilinearly."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stem = _convs((inputs, 32, 7), (32, 32, 7))
        downs = [(32, 64, 5), (64, 128, 3), (128, 256, 3), (256, 512, 3), (512, 512, 3)]
        self.down = nn.ModuleList(_convs((a, b, k), (b, b, k)) for a, b, k in downs)
        ups = [(512, 512), (512, 256), (256, 128), (128, 64), (64, 32)]
        self.up = nn.ModuleList(_convs((a, b, 3)) for a, b in ups)
        self.merge = nn.ModuleList(_convs((2 * b, b, 3)) for _, b in ups)
        self.head = _convs((32, outputs, 3))

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.stem(x)]
        for block in self.down:
            skips.append(block(F.avg_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = up(F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False))
            x = merge(torch.cat([x, skips.pop()], dim=1))
        return self.head(x)


def warp(image: Tensor, flow: Tensor) -> Tensor:
    """``image`` (B, C, H, W) sampled where ``flow`` (B, 2, H, W), in pixels, points."""
    height, width = image.shape[2:]
    rows = torch.arange(height, device=image.device, dtype=image.dtype)[:, None]
    columns = torch.arange(width, device=image.device, dtype=image.dtype)[None, :]
    x = 2 * (columns + flow[:, 0]) / width - 1
    y = 2 * (rows + flow[:, 1]) / height - 1
    return F.grid_sample(image, torch.stack([x, y], dim=3), align_corners=False)


def _roughness(flow: Tensor) -> Tensor:
    across = (flow[..., :-1] - flow[..., 1:]).abs().mean()
    return across + (flow[..., :-1, :] - flow[..., 1:, :]).abs().mean()


class SuperSloMo(nn.Module):
    """Two frames and the true one between them to the estimate and its loss.

    ``features`` is VGG-16 up to its tenth convolution (conv4_3), frozen.
    """

    def __init__(self, time: float = 0.5) -> None:
        super().__init__()
        import_torchvision()
        from torchvision import models

        self.time = time
        self.flow = FlowNet(6, 4)
        self.refine = FlowNet(20, 5)
        features = models.vgg16(weights=None).features[:22]
        self.features = features.requires_grad_(False)

    def forward(self, first: Tensor, last: Tensor, middle: Tensor) -> tuple[Tensor, Tensor]:
        t = self.time
        flows = self.flow(torch.cat([first, last], dim=1))
        forth, back = flows[:, :2], flows[:, 2:]
        to_first = -t * (1 - t) * forth + t * t * back
        to_last = (1 - t) ** 2 * forth - t * (1 - t) * back
        from_first, from_last = warp(first, to_first), warp(last, to_last)
        parts = [first, last, forth, back, to_last, to_first, from_last, from_first]
        refined = self.refine(torch.cat(parts, dim=1))
        visible = torch.sigmoid(refined[:, 4:5])
        weight_first, weight_last = (1 - t) * visible, t * (1 - visible)
        seen_first = warp(first, to_first + refined[:, :2])
        seen_last = warp(last, to_last + refined[:, 2:4])
        total = weight_first + weight_last
        frame = (weight_first * seen_first + weight_last * seen_last) / total
        warped = F.l1_loss(from_first, middle) + F.l1_loss(from_last, middle)
        warped = warped + F.l1_loss(warp(first, back), last) + F.l1_loss(warp(last, forth), first)
        seen = F.mse_loss(self.features(frame), self.features(middle))
        smooth = _roughness(forth) + _roughness(back)
        return frame, 204 * F.l1_loss(frame, middle) + 102 * warped + 0.005 * seen + smooth
