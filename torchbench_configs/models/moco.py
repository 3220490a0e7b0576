"""MoCo: momentum contrast (He et al., arXiv 1911.05722), version 1 with a ResNet-50.

Simplified: one process, so the gathering and shuffling between processes is left out; the queue
is not rewritten, so that calls do not depend on how many came before.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.sweep.vision_import import import_torchvision


class MoCo(nn.Module):
    """Two views (B, 3, 224, 224) of the same images to contrastive logits (B, 1 + K)."""

    def __init__(
        self, width: int = 128, queue: int = 32000, momentum: float = 0.999, heat: float = 0.07
    ) -> None:
        super().__init__()
        import_torchvision()
        from torchvision import models

        self.momentum, self.heat = momentum, heat
        self.query = models.resnet50(num_classes=width)
        self.key = models.resnet50(num_classes=width)
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(width, queue), dim=0))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        q = F.normalize(self.query(queries), dim=1)
        with torch.no_grad():
            if self.training:
                for old, new in zip(self.key.parameters(), self.query.parameters(), strict=True):
                    old.mul_(self.momentum).add_(new, alpha=1 - self.momentum)
            k = F.normalize(self.key(keys), dim=1)
        positive = (q * k).sum(dim=1, keepdim=True)
        return torch.cat([positive, q @ self.queue], dim=1) / self.heat
