"""Are gradients that differ explained by kinks? ``python -m ocl_inductor.sweep.run.kinks X``.

The gradient of a ReLU jumps at 0. Where an input is nearer to 0 than rounding errors, the backend
may be on the other side than eager, and a whole pixel's gradient comes or goes: far more than any
tolerance, and no error. So it is with max pooling, where the two largest values of a
window are that near to each other: the gradient goes to another pixel. And so it is with the boxes
that a detector proposes, where two scores are that near. To tell that from a wrong gradient, the
model runs in float64 twice: made to take the backend's side at every ReLU, its pixel in every
window and its boxes, and made to take eager's. What lies between the two is the kinks' effect on a
parameter's gradient. ``share`` says how much of it is in the backend's difference from eager: 1.00
where kinks explain that difference.

ReLUs and max pools (2d) are modules of ``torch.nn``; those that a model calls as functions are not
seen. What else rounding may decide passes through a ``Choice``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from torch import nn

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.accuracy.accuracy import Rule, compare
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.rows.config import CONFIGS, load
from ocl_inductor.sweep.rows.subject import Subject, fresh, in_float64, load_subject, reset_seeds
from ocl_inductor.sweep.run.options import ACCURACY_BATCH
from torchbench_configs.models.choice import Choice

Compile = Callable[[nn.Module], Callable[..., Any]]
#: What was taken where, by the module's name and which of its calls it is: of a ReLU, for each
#: input whether it is above 0; of a max pool, for each window the position of its largest value;
#: of a choice, what was chosen.
Sides = dict[tuple[str, int], torch.Tensor]
Gradients = dict[str, torch.Tensor]
#: Chosen vectors this near, as a share of the largest number in them, are the same one.
_NEAR = 1e-3


@dataclass(frozen=True, slots=True)
class Explained:
    """One parameter's gradient; all distances are the largest of its elements.

    Attributes:
        difference: the backend's from eager's.
        effect: of the kinks, in float64.
        rest: what the effect leaves of the difference.
        share: the part of the difference along the effect, as a multiple of the effect.
        accepted: as accurate as ``sweep run`` asks for, the row's own tolerance left out.
    """

    name: str
    difference: float
    effect: float
    rest: float
    share: float
    accepted: bool


class _Watched(nn.Module):
    """A module that also returns what its kinks took, as each may be called several times."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.taken: dict[tuple[str, int], torch.Tensor] = {}
        for name, kink in _kinks(module).items():
            kink.register_forward_hook(self._watch(name))

    def _watch(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            calls = sum(key[0] == name for key in self.taken)
            # A ReLU's output is copied, as the next layer may work in place.
            self.taken[name, calls] = (
                _chosen(module, inputs[0]) if isinstance(module, nn.MaxPool2d) else output.clone()
            )

        return hook

    def forward(self, *args: object, **kwargs: object) -> tuple[Any, Any]:
        return self.module(*args, **kwargs), dict(self.taken)


def _kinks(module: nn.Module) -> dict[str, nn.Module]:
    return {
        n: m for n, m in module.named_modules() if isinstance(m, nn.ReLU | nn.MaxPool2d | Choice)
    }


def _chosen(pool: nn.MaxPool2d, value: torch.Tensor) -> torch.Tensor:
    """The position of each window's largest value, in the flattened image."""
    _, positions = nn.functional.max_pool2d(
        value,
        pool.kernel_size,
        pool.stride,
        pool.padding,
        pool.dilation,
        pool.ceil_mode,
        return_indices=True,
    )
    return positions


def watch(subject: Subject, compile_: Compile = lambda module: module) -> tuple[Sides, Gradients]:
    """The sides at each kink and the gradients of one training step; ``subject`` is used up."""
    reset_seeds()
    torch._dynamo.reset()
    kinks = _kinks(subject.module)
    call = compile_(_Watched(subject.module))
    outputs, taken = call(*subject.args, **subject.kwargs)
    sides = {
        k: v.detach() > 0 if isinstance(kinks[k[0]], nn.ReLU) else v.detach()
        for k, v in taken.items()
    }
    return sides, _gradients(subject, outputs)


def on_sides(subject: Subject, sides: Sides) -> Gradients:
    """The gradients where each kink is made to take ``sides``; ``subject`` is used up."""
    for name, kink in _kinks(subject.module).items():
        kink.forward = _taking(kink, name, sides)  # type: ignore[method-assign]
    reset_seeds()
    return _gradients(subject, subject.module(*subject.args, **subject.kwargs))


def _taking(kink: nn.Module, name: str, sides: Sides) -> Callable[[torch.Tensor], torch.Tensor]:
    calls = 0

    def forward(value: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        taken = sides[name, calls]
        calls += 1
        if isinstance(kink, Choice):
            return taken.to(value.dtype)
        if isinstance(kink, nn.MaxPool2d):
            pixels = value.flatten(-2).gather(-1, taken.flatten(-2))
            return pixels.reshape(taken.shape)
        # As little above 0 as can be, yet more than its neighbours at 0: a pooling function after
        # this one chooses it, as the backend's does.
        lifted = value + (value.detach().clamp(min=1e-12) - value.detach())
        return torch.where(taken, lifted, 0.0)

    return forward


def _differing(eager: torch.Tensor, ours: torch.Tensor) -> int:
    """In how many places the two differ; of chosen vectors, how many are near none of eager's."""
    if not eager.is_floating_point():
        return int((ours != eager).sum())
    near = _NEAR * float(eager.abs().max())
    return int((torch.cdist(ours, eager).amin(dim=-1) > near).sum())


def _gradients(subject: Subject, outputs: object) -> Gradients:
    subject.loss(outputs).backward()
    return {n: p.grad for n, p in subject.module.named_parameters() if p.grad is not None}


def explain(
    job: Job, subject: Subject, compile_: Compile
) -> tuple[Mapping[tuple[str, int], int], list[Explained]]:
    """At how many places of each kink the backend takes another side than eager; the gradients.

    Args:
        compile_: makes a module the backend's.
    """
    eager_sides, eager = watch(fresh(subject))
    our_sides, ours = watch(fresh(subject), compile_)
    _, exact = watch(in_float64(job, subject))
    eager_moved = on_sides(in_float64(job, subject), eager_sides)
    ours_moved = on_sides(in_float64(job, subject), our_sides)
    other = {key: _differing(eager_sides[key], our_sides[key]) for key in eager_sides}
    found = []
    for name, gradient in exact.items():
        effect = ours_moved[name] - eager_moved[name]
        difference = ours[name].double() - eager[name].double()
        size = float((effect * effect).sum())
        along = float((effect * difference).sum())
        verdict = compare(
            {name: eager[name]}, {name: ours[name]}, {name: gradient}, Rule.of(job, None)
        )
        found.append(
            Explained(
                name,
                float(difference.abs().max()),
                float(effect.abs().max()),
                float((difference - effect).abs().max()),
                along / size if size else 0.0,
                verdict.passed,
            )
        )
    return {key: count for key, count in other.items() if count}, found


@click.command()
@click.argument("name")
@click.option("--device", help="The OpenCL device.")
@click.option("--all", "everything", is_flag=True, help="Also gradients that agree.")
def main(name: str, device: str | None, everything: bool) -> None:
    """Say whether kinks explain the gradients of a row that differ from eager's.

    Exit codes: 0 no gradient differs, 1 one does, 2 wrong usage.
    """
    try:
        path = Path(CONFIGS, f"{name}.yaml")
        config = load(path)
        backend = Backend("opencl").on_device(device)
        batch = min(config.batch.training or 1, ACCURACY_BATCH)
        job = Job("accuracy", name, str(path), None, "training", (backend.label,), batch)
        subject = load_subject(job)
    except OpenCLInductorError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    with torch._dynamo.config.patch(config.dynamo):
        other, found = explain(job, subject, lambda module: backend.compile(module, None))
    total = sum(other.values())
    click.echo(f"{total} times another side than eager, in {len(other)} places")
    for (kink, _), count in other.items():
        click.echo(f"  {kink}: {count}")
    shown = [e for e in found if everything or not e.accepted]
    click.echo(f"{sum(not e.accepted for e in found)} of {len(found)} gradients differ")
    for entry in shown:
        click.echo(
            f"  {entry.name}: by {entry.difference:.3g}, the kinks' effect {entry.effect:.3g}, "
            f"share {entry.share:.4f}, rest {entry.rest:.2g}"
        )
    sys.exit(1 if any(not e.accepted for e in found) else 0)


if __name__ == "__main__":
    main()
