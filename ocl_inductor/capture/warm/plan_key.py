"""Dependencies of a plan besides the graph: this package's code, device, settings, flags.

PyTorch's own key covers the graph, example inputs, autocast, grad mode, deterministic mode, default
dtype and PyTorch's configuration.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path

import torch

from ocl_inductor import __version__
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.patches.switch import patches_off
from ocl_inductor.plan.plan import SCHEMA_VERSION
from ocl_inductor.settings import Settings

#: Sizes of memory: no code depends on them, and equal machines report slightly different ones.
_NOT_IN_CODE = frozenset({"global_mem_bytes", "max_alloc_bytes"})


def plan_key(
    info: DeviceInfo, settings: Settings, shared: tuple[tuple[int, int, str], ...] = ()
) -> str:
    """A digest of everything around the graph that a plan depends on.

    ``info``: the facts under these settings (``DeviceInfo.for_settings``); ``shared``: what
    :func:`shared_memory` says of the inputs.
    """
    parts = (environment_key(info, settings), ("flags", _torch_flags()), ("shared", shared))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def environment_key(info: DeviceInfo, settings: Settings) -> str:
    """A digest of what is the same for all graphs: code, versions, device, settings."""
    facts = tuple(
        (f.name, _stable(getattr(info, f.name))) for f in fields(info) if f.name not in _NOT_IN_CODE
    )
    parts = (
        ("package", __version__, SCHEMA_VERSION, package_digest()),
        ("torch", torch.__version__, torch.version.git_version),
        ("python", sys.version_info[:2]),
        ("device", facts),
        # Under "error" a plan must not have host calls that "warn" allows.
        ("settings", settings.code_key(), settings.fallback),
        ("patches off", sorted(patches_off())),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def shared_memory(inputs: Sequence[object]) -> tuple[tuple[int, int, str], ...]:
    """For each input in the memory of an earlier one: both positions, and its offset there.

    AOTAutograd traces a write to an input into the others that overlap it, and its own key does not
    include which do.
    """
    first: dict[int, tuple[int, torch.Tensor]] = {}
    found = []
    for n, x in enumerate(inputs):
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
            continue
        number, other = first.setdefault(x.untyped_storage()._cdata, (n, x))
        if number != n:
            found.append((number, n, f"{other.storage_offset()} {x.storage_offset()}"))
    return tuple(found)


def _stable(x: object) -> object:
    """Sets in an order that is the same in all processes."""
    return sorted(x) if isinstance(x, (set, frozenset)) else x


def _torch_flags() -> tuple[object, ...]:
    """Flags that affect AOTAutograd's tracing and that PyTorch's own key omits."""
    return (
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch.get_float32_matmul_precision(),
        torch.is_inference_mode_enabled(),
    )


@cache
def package_digest() -> str:
    """A digest of all files of this package that compiling reads, so an edit changes the key."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".jinja", ".cl", ".json"):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
