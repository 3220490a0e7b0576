"""ResNet-18 with group norms, as differentially private training needs it.

Papers: arXiv 1512.03385 and 2109.12298 (Opacus). Per-sample gradients belong to the optimiser of
those benchmarks and not to the module; like dynamobench, the rows measure the module.
"""

from __future__ import annotations

from torch import nn

from ocl_inductor.sweep.vision_import import import_torchvision


def resnet18_group_norm(classes: int) -> nn.Module:
    """(B, 3, 32, 32) to (B, classes); batch norms replaced by group norms of at most 32 groups."""
    import_torchvision()
    from torchvision import models

    module: nn.Module = models.resnet18(
        num_classes=classes, norm_layer=lambda channels: nn.GroupNorm(min(32, channels), channels)
    )
    return module
