"""A training loop with accelerate: gradients gathered over four batches, clipped, with a schedule.

    python examples/accelerate_loop.py

``accelerator.prepare`` wraps the model; what it gives is compiled. Its own ``dynamo_backend`` takes
names of a fixed list only, to which ``opencl`` does not belong.
"""

from __future__ import annotations

import copy

from common import check_close, check_counters, console, graphs, options, summary
from data import digits

import torch
from accelerate import Accelerator
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset


def network() -> nn.Module:
    layers = [nn.Flatten(), nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def train(model: nn.Module, epochs: int, compile_it: bool) -> tuple[list[float], int]:
    """The mean loss of each epoch, and how many graphs there were after the first."""
    images, labels = digits()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(images[:1280], labels[:1280]), 16)
    schedule = OneCycleLR(optimiser, 0.01, total_steps=epochs * len(loader))
    model, optimiser, loader, schedule = accelerator.prepare(model, optimiser, loader, schedule)
    if compile_it:
        model = torch.compile(model, backend="opencl")
    means, settled = [], 0
    for epoch in range(epochs):
        losses = []
        for given, wanted in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(given), wanted)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                optimiser.zero_grad()
            losses.append(loss.detach())
        means.append(torch.stack(losses).mean().item())
        settled = settled or graphs()
        name = "opencl" if compile_it else "eager"
        console.print(f"{name:>7}, epoch {epoch + 1}: loss {means[-1]:.4f}")
    return means, settled


def main() -> None:
    chosen = options(__doc__.splitlines()[0], epochs=(4, "epochs"))
    model = network()
    same = copy.deepcopy(model)
    ours, settled = train(model, chosen.epochs, compile_it=True)
    console.print(summary())
    eager, _ = train(same, chosen.epochs, compile_it=False)
    if chosen.check:
        check_counters(settled)
        torch.testing.assert_close(ours, eager, rtol=2e-2, atol=1e-3)
        assert ours[-1] < 0.3 * ours[0], ours
        images = digits()[0][:64]
        with torch.no_grad():
            compiled = torch.compile(model.eval(), backend="opencl")
            exact = copy.deepcopy(model).double()(images.double())
            check_close(compiled(images), model(images), exact)


if __name__ == "__main__":
    main()
