"""Choices for tunable fields that were measured with ``ocl-inductor tune`` and contributed.

A file of ``tuned/choices/`` has those of one device, as the command exports them. On that device
every mode takes them; ``mode="max-autotune"`` measures by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.spec import TemplateSpec, choice_text, sizes_text

FOLDER = Path(__file__).parent / "tuned" / "choices"
#: Answers which of several candidates to take, by position.
Chooser: TypeAlias = Callable[[TemplateSpec[Any], Sequence[Any]], int]


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """What has to be equal for a choice to hold.

    The second-level cache (bytes; None: a device that has none, or does not tell) is among them
    because virtual machines report one name for several processors.
    """

    device: str
    platform: str
    profile: str
    lanes: int
    l2: int | None

    @classmethod
    def of(cls, info: DeviceInfo) -> MeasuredOn:
        l2 = info.caches.l2 if info.caches is not None else None
        return cls(info.name, info.platform_name, info.profile, info.vector_width, l2)


@dataclass(frozen=True, slots=True)
class Contribution:
    """``choices``: by template and sizes (``problem``). ``measured``: when and how, a line."""

    on: MeasuredOn
    measured: str
    choices: Mapping[str, str]

    def choose(self, spec: TemplateSpec[Any], candidates: Sequence[TemplateParams]) -> int:
        """The position of what was chosen; 0, the default, where nothing was."""
        known = self.choices.get(problem(spec.name, sizes_text(candidates[0])))
        texts = [choice_text(c) for c in candidates]
        return texts.index(known) if known in texts else 0


def problem(template: str, sizes: Mapping[str, str]) -> str:
    """A template with everything that is not tunable, as text."""
    return json.dumps([template, sizes], sort_keys=True)


def contributed_choices(info: DeviceInfo) -> Chooser | None:
    """What was contributed for this device; None: nothing."""
    on = MeasuredOn.of(info)
    return next((c.choose for c in _contributions() if c.on == on), None)


@cache
def _contributions() -> tuple[Contribution, ...]:
    return tuple(map(read_contribution, sorted(FOLDER.glob("*.json"))))


def read_contribution(path: Path) -> Contribution:
    """A file's content.

    Raises:
        ValueError: it is not one that ``written`` made.
    """
    given = json.loads(path.read_text("utf-8"))
    try:
        choices = {problem(c["template"], c["sizes"]): str(c["choice"]) for c in given["choices"]}
        return Contribution(MeasuredOn(**given["on"]), str(given["measured"]), choices)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path.name} is no file of choices: {error!r}") from None


def written(
    on: MeasuredOn, measured: str, choices: Iterable[tuple[str, Mapping[str, str], str, float]]
) -> str:
    """A file's text. ``choices``: template, sizes, choice, and how many times the default it is."""
    rows = [
        {"template": template, "sizes": dict(sizes), "choice": choice, "gain": round(gain, 2)}
        for template, sizes, choice, gain in choices
    ]
    content = {"on": asdict(on), "measured": measured, "choices": rows}
    return json.dumps(content, indent=1) + "\n"
