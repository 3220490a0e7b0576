"""The ways of running a model that a sweep compares.

A backend is written ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``, for instance ``eager``,
``inductor:freezing=true``, ``opencl:device=pocl,profile=simt`` or ``opencl:mode=max-autotune``.
Options are those of ``torch.compile(options=…)``; ``mode`` is its keyword of that name.

With ``ocl``, ``ocl_lazy`` and ``ocl_compiled`` the model is on that device (``resident.py``);
their options are ``device`` and ``memory``, as in ``ocl:device=pocl,memory=discrete``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.process import resident

NAMES = ("eager", "aot_eager", "inductor", "opencl", *resident.NAMES)
_SPEC = re.compile(r"(?P<name>\w+)(:(?P<options>.*))?")


class BadBackendError(OpenCLInductorError):
    """A backend that cannot be read or does not exist."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(
            f"Backend {text!r}: {reason}. Write NAME or NAME:OPTION=VALUE,…, for instance "
            f"opencl:device=gpu; names are {', '.join(NAMES)}.",
            backend=text,
        )


@dataclass(frozen=True, slots=True)
class Backend:
    """One contender: a backend of ``torch.compile`` with its options, or eager."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Backend:
        """
        Raises:
            BadBackendError: no such backend, or an option without a value.
        """
        match = _SPEC.fullmatch(text.strip())
        if match is None or match["name"] not in NAMES:
            raise BadBackendError(text, "there is no such backend")
        options: dict[str, Any] = {}
        for item in filter(None, (match["options"] or "").split(",")):
            key, equals, value = item.partition("=")
            if not equals or not key.strip() or not value.strip():
                raise BadBackendError(text, f"{item!r} is not OPTION=VALUE")
            options[key.strip()] = yaml.safe_load(value)
        if match["name"] in ("eager", "aot_eager") and options:
            raise BadBackendError(text, f"{match['name']} has no options")
        if match["name"] in resident.NAMES and not options.keys() <= resident.VARIABLES.keys():
            has = " and ".join(resident.VARIABLES)
            raise BadBackendError(text, f"the options of {match['name']} are {has}")
        return cls(match["name"], tuple(sorted(options.items())))

    @property
    def label(self) -> str:
        """The text that ``parse`` reads back to this backend."""
        options = ",".join(f"{k}={_text(v)}" for k, v in self.options)
        return f"{self.name}:{options}" if options else self.name

    @property
    def is_eager(self) -> bool:
        return self.name == "eager"

    @property
    def is_opencl(self) -> bool:
        """Whether it is this project's, wherever the tensors are."""
        return self.name == "opencl" or self.is_resident

    @property
    def is_resident(self) -> bool:
        """Whether the model is on the device ``ocl``."""
        return self.name in resident.NAMES

    @property
    def place(self) -> str:
        """PyTorch's name of the device that the model is on."""
        return "ocl" if self.is_resident else "cpu"

    def prepare(self) -> None:
        """Call it before anything else of PyTorch's in the process that runs the backend."""
        if self.is_resident:
            resident.register(dict(self.options))

    def on_device(self, device: str | None) -> Backend:
        """The same with the OpenCL device ``device``, unless it names one itself."""
        if device is None or not self.is_opencl or any(k == "device" for k, _ in self.options):
            return self
        return Backend(self.name, tuple(sorted((*self.options, ("device", device)))))

    def compile(self, function: Callable[..., object], dynamic: bool | None) -> Callable[..., Any]:
        """The function this backend runs; nothing is compiled before its first call."""
        import torch

        if self.is_eager or (self.is_resident and self.name != resident.COMPILED):
            return function
        if self.is_resident:
            return torch.compile(function, backend="opencl", dynamic=dynamic)
        options = dict(self.options)
        mode = options.pop("mode", None)
        keywords: dict[str, object] = {"options": options} if options else {}
        if mode is not None and options and self.name == "inductor":
            raise BadBackendError(self.label, "torch.compile takes a mode or options, not both")
        if mode is not None and options:
            keywords["options"] = {**options, "mode": mode}
        elif mode is not None:
            keywords = {"mode": mode}
        return torch.compile(function, backend=self.name, dynamic=dynamic, **keywords)

    @contextlib.contextmanager
    def compiling(self, *, exact_random: bool = False) -> Iterator[None]:
        """Hold this around every call that may compile.

        Args:
            exact_random: let Inductor draw the random numbers that eager would.
        """
        if self.name != "inductor":
            yield
            return
        import torch._inductor.config

        settings: dict[str, Any] = {"fallback_random": exact_random}
        if dict(self.options).get("freezing"):
            # Dynamo asks the global setting whether parameters are constants, not the option.
            settings["freezing"] = True
        with torch._inductor.config.patch(settings):
            yield

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Hold this around one iteration: at its end all results are there."""
        if not self.is_resident:
            yield
            return
        with resident.running(self.name):
            yield

    def finishing(self, step: Callable[[], Any]) -> Callable[[], Any]:
        """``step``, which returns when its results are there."""
        if not self.is_resident:
            return step

        def finished() -> Any:
            with self.running():
                return step()

        return finished


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
