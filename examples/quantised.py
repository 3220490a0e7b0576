"""int8 and int4 with torchao: a network that reads digits, its size, and what is lost.

python examples/quantised.py
"""

from __future__ import annotations

import copy

from common import check_counters, console, distance, graphs, options, step, summary
from data import digits

import torch
from torch import Tensor, nn
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerGroup

#: What torchao makes of the weights of linear layers.
KINDS = {
    "int8 weights": Int8WeightOnlyConfig(),
    "int8 weights and activations": Int8DynamicActivationInt8WeightConfig(),
    "int4 weights": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
}


def network() -> nn.Module:
    layers = [nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(512, 10))


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> None:
    compiled = torch.compile(model, backend="opencl")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images))[:1280].split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(compiled(images[rows]), labels[rows]).backward()
            optimiser.step()


def main() -> None:
    chosen = options(__doc__.splitlines()[0], epochs=(6, "epochs of training"))
    images, labels = digits()
    model = network()
    with step("learning to read digits"):
        train(model, images[:1300], labels[:1300], chosen.epochs)
    model.eval()
    images, labels = images[1300:], labels[1300:]
    with torch.no_grad():
        full = model(images)
    right = (full.argmax(1) == labels).float().mean().item()
    console.print(f"{'float32':>28}: {right:.1%} of {len(labels)} scans not seen before are right")

    for name, config in KINDS.items():
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        quantised = copy.deepcopy(model)
        quantize_(quantised, config)
        compiled = torch.compile(quantised, backend="opencl")
        with torch.no_grad():
            for _ in range(2):
                compiled(images)
            settled = graphs()
            ours, eager = compiled(images), quantised(images)
        right = (ours.argmax(1) == labels).float().mean().item()
        console.print(
            f"{name:>28}: {right:.1%}, logits differ by {distance(ours, full):.1%} from float32's, "
            f"by {distance(ours, eager):.0e} from eager's; {summary()}"
        )
        if chosen.check:
            check_counters(settled)
            assert right > 0.85, (name, right)
            # An activation at the edge of two int8 values may fall to either side.
            assert distance(ours, eager) < (2e-2 if "activations" in name else 1e-5), name


if __name__ == "__main__":
    main()
