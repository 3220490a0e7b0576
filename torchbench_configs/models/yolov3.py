"""YOLOv3-SPP (Redmon and Farhadi, arXiv 1804.02767; spatial pyramid pooling arXiv 1406.4729).

Darknet-53, three scales, nine anchors, 80 classes; nothing is simplified but non-maximum
suppression, which TorchBench runs outside the module as well.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchbench_configs.models.blocks import Residual, conv_block

_ANCHORS = (
    ((116, 90), (156, 198), (373, 326)),
    ((30, 61), (62, 45), (59, 119)),
    ((10, 13), (16, 30), (33, 23)),
)
_STRIDES = (32, 16, 8)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return conv_block(inputs, outputs, kernel, stride, act=nn.LeakyReLU(0.1, inplace=True))


def _stage(inputs: int, outputs: int, count: int) -> nn.Sequential:
    """A convolution that halves the size and ``count`` residual bottlenecks."""
    body = [
        Residual(nn.Sequential(_conv(outputs, outputs // 2, 1), _conv(outputs // 2, outputs, 3)))
        for _ in range(count)
    ]
    return nn.Sequential(_conv(inputs, outputs, 3, 2), *body)


def _alternating(inputs: int, width: int, count: int) -> nn.Sequential:
    """Convolutions of kernel 1 and 3 in turn, narrow and wide."""
    layers: list[nn.Module] = []
    for index in range(count):
        outputs, kernel = (2 * width, 3) if index % 2 else (width, 1)
        layers.append(_conv(inputs, outputs, kernel))
        inputs = outputs
    return nn.Sequential(*layers)


class _PyramidPool(nn.Module):
    """The input beside its maxima over windows of 5, 9 and 13."""

    def forward(self, x: Tensor) -> Tensor:
        pools = [F.max_pool2d(x, size, 1, size // 2) for size in (13, 9, 5)]
        return torch.cat([*pools, x], dim=1)


class Yolov3(nn.Module):
    """Images (B, 3, H, W), H and W multiples of 32.

    In training the raw maps, a tensor (B, 3, h, w, 85) a scale; otherwise all boxes in pixels
    with their scores, (B, N, 85), as well.
    """

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.fields = 5 + classes
        self.early = nn.Sequential(
            _conv(3, 32, 3), _stage(32, 64, 1), _stage(64, 128, 2), _stage(128, 256, 8)
        )
        self.middle, self.late = _stage(256, 512, 8), _stage(512, 1024, 4)
        self.pool = nn.Sequential(
            _alternating(1024, 512, 3), _PyramidPool(), _alternating(2048, 512, 3)
        )
        self.reduce = nn.ModuleList([_conv(512, 256, 1), _conv(256, 128, 1)])
        self.merge = nn.ModuleList([_alternating(768, 256, 5), _alternating(384, 128, 5)])
        self.heads = nn.ModuleList(
            nn.Sequential(_conv(width, 2 * width, 3), nn.Conv2d(2 * width, 3 * self.fields, 1))
            for width in (512, 256, 128)
        )
        self.register_buffer("anchors", torch.tensor(_ANCHORS).float(), persistent=False)

    def forward(self, image: Tensor) -> list[Tensor] | tuple[Tensor, list[Tensor]]:
        early = self.early(image)
        middle = self.middle(early)
        features = [self.pool(self.late(middle))]
        for reduce, merge, skip in zip(self.reduce, self.merge, (middle, early), strict=True):
            small = F.interpolate(reduce(features[-1]), scale_factor=2.0, mode="nearest")
            features.append(merge(torch.cat([small, skip], dim=1)))
        raw = [
            head(x).unflatten(1, (3, self.fields)).permute(0, 1, 3, 4, 2)
            for head, x in zip(self.heads, features, strict=True)
        ]
        if self.training:
            return raw
        boxes = [self._decode(x, index) for index, x in enumerate(raw)]
        return torch.cat(boxes, dim=1), raw

    def _decode(self, raw: Tensor, scale: int) -> Tensor:
        """Centres, sizes in pixels and scores, (B, 3 * h * w, 85), of one scale."""
        height, width = raw.shape[2:4]
        rows = torch.arange(height, device=raw.device, dtype=raw.dtype)
        columns = torch.arange(width, device=raw.device, dtype=raw.dtype)
        cells = torch.stack(
            [columns.expand(height, width), rows[:, None].expand(height, width)], dim=2
        )
        centre = (raw[..., :2].sigmoid() + cells) * _STRIDES[scale]
        size = raw[..., 2:4].exp() * self.anchors[scale][:, None, None]
        return torch.cat([centre, size, raw[..., 4:].sigmoid()], dim=4).flatten(1, 3)
