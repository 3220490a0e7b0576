"""Building a family: a small random model and inputs with which eager runs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ocl_inductor.sweep.families.exceptions import TransformersCase, exceptions
from ocl_inductor.sweep.families.inputs import from_specs, proposals
from ocl_inductor.sweep.families.listing import Family, find
from ocl_inductor.sweep.families.shrink import Rung, shrunk
from ocl_inductor.sweep.process.child import short_message
from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.rows.inputs import cast
from ocl_inductor.sweep.rows.losses import mean_of_means
from ocl_inductor.sweep.rows.resolve import ModelLoadError
from ocl_inductor.sweep.rows.weights import batch_norms, calibrate, enliven
from ocl_inductor.sweep.vision_import import import_torchvision

SEED = 1337
#: Parameters above which a model is not small.
MOST_PARAMETERS = 200_000_000
#: Sides of timm's images, from the smallest.
SIDES = (64, 96, 128, 224, 256)


@dataclass(frozen=True, slots=True)
class FamilyModel:
    """A family's model as a subject of the sweep; ``described`` says what was built."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    described: str = ""

    def loss(self, outputs: object) -> torch.Tensor:
        return mean_of_means(outputs)

    def optimizer(self) -> torch.optim.Optimizer | None:
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        return torch.optim.SGD(parameters, lr=0.01) if parameters else None


def load_family(job: Job, dtype: torch.dtype) -> FamilyModel:
    """The model of the job's family, in eval mode.

    Raises:
        ModelLoadError: it cannot be built small, or eager runs with no inputs that were tried.
    """
    family = find(job.name)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        made = _of_timm(family) if family.library == "timm" else _of_transformers(family)
    made.module.eval().requires_grad_(False).to(dtype)
    return FamilyModel(
        made.module, cast(made.args, dtype), cast(dict(made.kwargs), dtype), made.described
    )


def _of_timm(family: Family) -> FamilyModel:
    import_torchvision()
    import timm

    case = exceptions().timm.get(family.kind)
    if case is not None and case.skip:
        raise ModelLoadError(family.name, "timm", case.skip)
    entry = case.model if case is not None else None
    if entry is None:
        entry = smallest_by_name(timm.list_models(module=family.kind))
    arguments = dict(case.arguments) if case is not None else {}
    reasons: list[str] = []
    sides = SIDES if case is None or case.size is None else (case.size,)
    for side, sized in ((s, k) for s in sides for k in (True, False)):
        more = {"img_size": side} if sized else {}
        try:
            module = timm.create_model(entry, pretrained=False, **arguments, **more)
            return _settled(module, (_images(side),), {}, f"{entry}, {side}×{side}")
        except Exception as error:  # anything a package may raise: the next size may do
            reasons.append(f"{side}: {short_message(error, 120)}")
    raise ModelLoadError(family.name, f"timm:{entry}", reasons[-1])


def _images(side: int) -> torch.Tensor:
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(SEED))


_SMALL = ("test_", "atto", "femto", "pico", "nano", "xxs", "xs", "tiny", "mini", "small")


def smallest_by_name(names: list[str]) -> str:
    """The entry point whose name says that it is the smallest; the shortest name otherwise."""

    def order(name: str) -> tuple[int, int, str]:
        found = [i for i, word in enumerate(_SMALL) if word in name]
        return (min(found, default=len(_SMALL)), len(name), name)

    return min(names, key=order)


def _of_transformers(family: Family) -> FamilyModel:
    import_torchvision()
    import transformers

    case = exceptions().transformers.get(family.kind, TransformersCase())
    if case.skip:
        raise ModelLoadError(family.name, "transformers", case.skip)
    name = case.model or family.classes[0]
    kind = getattr(transformers, name, None)
    if kind is None:
        raise ModelLoadError(family.name, name, "transformers does not export it")
    reasons: list[str] = []
    for rung in [r for r in Rung if r >= Rung[case.rung]]:
        try:
            module = _small_model(kind, case, rung)
        except Exception as error:  # anything a package may raise: the next rung may do
            reasons.append(f"{rung.name}: {short_message(error, 160)}")
            continue
        for inputs in _inputs(module, case):
            try:
                shapes = ", ".join(f"{n} {_shape(v)}" for n, v in inputs.items())
                return _settled(module, (), inputs, f"{name}, {rung.name}: {shapes}")
            except Exception as error:
                reasons.append(f"{rung.name}, {', '.join(inputs)}: {short_message(error, 160)}")
    raise ModelLoadError(
        family.name, name, " | ".join(reasons[:6]) or "no inputs fit its signature"
    )


def _inputs(module: nn.Module, case: TransformersCase) -> Iterator[dict[str, Any]]:
    if case.inputs:
        yield from_specs(case.inputs, SEED)
        return
    more = from_specs(case.more_inputs, SEED)
    for inputs in proposals(module, SEED):
        yield {**inputs, **more}


def _shape(value: object) -> str:
    return "×".join(map(str, value.shape)) if isinstance(value, torch.Tensor) else repr(value)


def merged(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """``base`` with the values of ``over``, nested mappings too."""
    found = dict(base)
    for key, value in over.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        found[key] = merged(old, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return found


def _small_model(kind: Any, case: TransformersCase, rung: Rung) -> nn.Module:
    config_class = kind.config_class
    arguments = merged(shrunk(config_class(), rung), case.config)
    config = config_class(**arguments)
    for one in (config, *(c for c in vars(config).values() if hasattr(c, "model_type"))):
        if hasattr(one, "use_cache"):
            one.use_cache = False
    if rung is not Rung.ALL:
        with torch.device("meta"):
            _refuse_large(kind(copy.deepcopy(config)))
    module: nn.Module = kind(config)
    _refuse_large(module)
    return module


def _refuse_large(module: nn.Module) -> None:
    count = sum(p.numel() for p in module.parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count / 1e6:.0f} million parameters are not small")


def _settled(
    module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], described: str
) -> FamilyModel:
    """The model with weights that a comparison can learn from, once eager has run with it.

    Raises:
        Exception: whatever eager raises; ``ValueError`` where no result is a finite number.
    """
    module.eval()
    redraw(module)
    enliven(module)
    call: Callable[[], object] = lambda: module(*args, **kwargs)  # noqa: E731
    if batch_norms(module):
        calibrate(module, call)
    found = [v for v in pytree.tree_leaves(call()) if isinstance(v, torch.Tensor) and v.numel()]
    if not found:
        raise ValueError("its results have no tensor")
    if not any(bool(v.isfinite().any()) for v in found):
        raise ValueError("no result is finite")
    return FamilyModel(module, args, kwargs, described)


def redraw(module: nn.Module) -> None:
    """New small values for parameters that were left as memory had them, or are not finite."""
    for parameter in module.parameters():
        if not parameter.is_floating_point():
            continue
        largest = float(parameter.abs().max()) if parameter.numel() else 0.0
        if not math.isfinite(largest) or largest > 1e3:
            parameter.normal_(0.0, 0.02)
