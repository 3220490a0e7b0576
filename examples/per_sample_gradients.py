"""The gradient of each scan of a digit on its own, and the digits that pull hardest.

    python examples/per_sample_gradients.py

``torch.func`` composes with the compiler: ``vmap`` of ``grad`` becomes kernels over the batch.
"""

from __future__ import annotations

import copy

from common import check_close, check_counters, console, distance, graphs, options, step, summary
from data import digits

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

SHADES = " ░▒▓█"


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 16, 10),
    )


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> None:
    compiled = torch.compile(model, backend="opencl")
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images))[:1792].split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(compiled(images[rows]), labels[rows]).backward()
            optimiser.step()


def per_sample(model: nn.Module):
    """A function from images and labels to the gradients, with a leading dimension for scans."""

    def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(model, parameters, (image[None],))
        return nn.functional.cross_entropy(logits, label[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))


def norms(gradients: dict[str, Tensor]) -> Tensor:
    """The length of each scan's gradient over all parameters."""
    return torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0).sqrt()


def draw(image: Tensor) -> list[str]:
    levels = (image.squeeze() * (len(SHADES) - 1)).round().int().tolist()
    return ["".join(SHADES[level] * 2 for level in row) for row in levels]


def main() -> None:
    chosen = options(__doc__.splitlines()[0], epochs=(5, "epochs of training"))
    images, labels = digits()
    model = network()
    with step("learning to read digits"):
        train(model, images, labels, chosen.epochs)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    function = per_sample(model)
    compiled = torch.compile(function, backend="opencl", fullgraph=True)
    with step(f"gradients of {len(images)} scans, first call"):
        compiled(parameters, images, labels)
    compiled(parameters, images, labels)
    settled = graphs()
    with step("the same again"):
        gradients = compiled(parameters, images, labels)
    with step("the same in eager"):
        eager = function(parameters, images, labels)
    console.print(summary())

    lengths = norms(gradients)
    hardest = lengths.argsort(descending=True)[:4].tolist()
    right = (model(images).argmax(1) == labels).float().mean().item()
    console.print(f"\n{right:.1%} read correctly; the scans with the longest gradients:")
    for lines in zip(*(draw(images[i]) for i in hardest)):
        console.print("  ".join(lines))
    console.print("  ".join(f"{labels[i]}, {lengths[i]:.1f}".center(16) for i in hardest))

    if chosen.check:
        check_counters(settled)
        wide = {name: p.double() for name, p in parameters.items()}
        exact = per_sample(copy.deepcopy(model).double())(wide, images.double(), labels)
        for name in parameters:
            check_close(gradients[name], eager[name], exact[name])
        assert distance(norms(gradients), norms(exact)) < 1e-4
        assert right > 0.9, right


if __name__ == "__main__":
    main()
