"""One network learns on the device ``ocl`` three times: eagerly, lazily, and compiled.

    python examples/ocl_device.py

The loop is the same each time, with the CPU's for comparison. The network sees the upper half of a
digit and learns to draw the lower one; what it draws for scans it has not seen comes at the end.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from common import check_close, check_counters, console, graphs, options, step, summary
from data import digits

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import ocl_inductor.eager  # noqa: F401  (registers the device)

BATCH, HELD_OUT, SHOWN = 128, 261, 5
SHADES = " ░▒▓█"


@dataclass(frozen=True, slots=True)
class Learned:
    """A network, the mean loss of each epoch, seconds of an epoch, graphs after the second step."""

    model: nn.Module
    losses: list[float]
    seconds: float
    settled: int


def network() -> nn.Module:
    """Upper halves (N, 1, 4, 8) to lower halves of the same size; always the same weights."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 32, 256),
        nn.ReLU(),
        nn.Linear(256, 32),
        nn.Sigmoid(),
        nn.Unflatten(1, (1, 4, 8)),
    )


def learn(
    images: Tensor, epochs: int, device: str, compiled: bool, show: Callable[[str], None]
) -> Learned:
    """Train with tensors on ``device``; the images go there once."""
    model = network().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    upper, lower = (half.to(device) for half in images.split(4, dim=2))

    def loss_of(upper: Tensor, lower: Tensor) -> Tensor:
        return nn.functional.mse_loss(model(upper), lower)

    update = optimiser.step
    if compiled:
        loss_of = torch.compile(loss_of, backend="opencl")
        update = torch.compile(update, backend="opencl")
    order, losses, times, settled = torch.Generator().manual_seed(0), [], [], 0
    for epoch in range(epochs):
        start, total = time.perf_counter(), 0.0
        batches = torch.randperm(len(images), generator=order).split(BATCH)
        for number, rows in enumerate(batches):
            optimiser.zero_grad()
            loss = loss_of(upper[rows], lower[rows])
            loss.backward()
            update()
            total += loss.item()  # the one number of a step: in lazy mode, a graph ends here
            settled = graphs() if epoch == 0 and number == 1 else settled
        losses.append(total / len(batches))
        times.append(time.perf_counter() - start)
        show(f"epoch {epoch + 1} of {epochs}, loss {losses[-1]:.4f}")
    return Learned(model, losses, min(times), settled)


def draw(image: Tensor) -> list[str]:
    levels = (image.squeeze() * (len(SHADES) - 1)).round().int().tolist()
    return ["".join(SHADES[level] * 2 for level in row) for row in levels]


def gallery(images: Tensor) -> None:
    for lines in zip(*map(draw, images)):
        console.print("   ".join(lines), markup=False)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], epochs=(20, "epochs of training"))
    # Dynamo says that it leaves out the optimiser's marks for profilers.
    torch._logging.set_logs(dynamo=logging.ERROR)
    images, _ = digits()
    seen, new = images[:-HELD_OUT], images[-HELD_OUT:]  # 12 full batches to learn from
    upper, lower = new.split(4, dim=2)
    name = torch.ocl.get_device_name()
    ways = {"cpu, eager": ("cpu", contextlib.nullcontext), "eager": ("ocl", contextlib.nullcontext)}
    if hasattr(torch.UntypedStorage, "_swap_data_ptr_"):  # PyTorch 2.13 and later
        ways["lazy"] = "ocl", torch.ocl.lazy
    ways["compiled"] = "ocl", contextlib.nullcontext

    found: dict[str, Learned] = {}
    for way, (device, around) in ways.items():
        counters.clear()
        place = name if device == "ocl" else "the CPU"
        with step(f"{way}: {chosen.epochs} epochs on {place}") as show, around():
            found[way] = learn(seen, chosen.epochs, device, way == "compiled", show)
            with torch.no_grad():
                error = (found[way].model(upper.to(device)).cpu() - lower).abs().mean().item()
        first, *_, last = found[way].losses
        console.print(
            f"  loss {first:.4f} at first, {last:.4f} at last; {error:.3f} of a grey level off in "
            f"new scans; {found[way].seconds * 1e3:.0f} ms an epoch\n  {summary()}"
        )

    model = found["compiled"].model
    with torch.no_grad():
        drawn = torch.compile(model, backend="opencl")(upper.to("ocl")).cpu()
    console.print("\nThe upper half was given. Above what it draws, below the scans as they are:")
    gallery(torch.cat([upper, drawn], 2)[:SHOWN])
    console.print()
    gallery(new[:SHOWN])

    if chosen.check:
        check_counters(graphs())
        wanted = found["cpu, eager"].losses
        for way, learned in found.items():
            torch.testing.assert_close(learned.losses, wanted, rtol=0.02, atol=0, msg=way)
        assert wanted[-1] < 0.6 * wanted[0], wanted
        home = copy.deepcopy(model).cpu()
        with torch.no_grad():
            check_close(drawn, home(upper), home.double()(upper.double()))


if __name__ == "__main__":
    main()
