"""The settings: one frozen dataclass, one field a setting.

A field's metadata says what it does, which environment variable sets it, how text is parsed, and
whether it changes the generated code (then it is part of the plan's cache key). To add a setting,
add one field.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from ocl_inductor.device.described import DescribedTarget, find_target, target_names
from ocl_inductor.errors import OpenCLInductorError, UnknownOptionError
from ocl_inductor.patches.switch import patches_off
from ocl_inductor.support.units import parse_size

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")
_CACHE_DIR = "OCL_INDUCTOR_CACHE_DIR"
#: The longest path from the cache folder on, that of an unfinished entry (kernel_store.py).
_LONGEST_BELOW = os.path.join("kernels", "ab", "c" * 80)
#: Bytes of one name in a path, on the file systems that are in use.
_LONGEST_NAME = 255


def default_cache_dir() -> Path:
    """The folder for everything this package remembers: OCL_INDUCTOR_CACHE_DIR or the user's.

    Raises UnknownOptionError where the variable names no folder, OpenCLInductorError where it is
    not set and the user has no home.
    """
    given = os.environ.get(_CACHE_DIR)
    try:
        return _parse_cache_dir(
            given or platformdirs.user_cache_dir("ocl_inductor", appauthor=False)
        )
    except _BadValue as bad:
        if given:
            raise UnknownOptionError(f"value of {_CACHE_DIR}", given, bad.args) from None
        raise OpenCLInductorError(
            f"There is no place for compiled kernels: {bad}. Name a folder with {_CACHE_DIR}."
        ) from None


def _default_debug_dir() -> Path | None:
    """torch's own debug folder when TORCH_COMPILE_DEBUG=1, else none."""
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        return None
    root = os.environ.get("TORCH_COMPILE_DEBUG_DIR") or "torch_compile_debug"
    return Path(root).absolute() / "ocl_inductor"


def _default_threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(8, len(os.sched_getaffinity(0)))
    return min(8, os.cpu_count() or 1)


def _default_processes() -> int:
    return min(2, _default_threads())


class _BadValue(Exception):
    """Raised by a parser; its arguments are what would have been valid."""


def _parse_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _BadValue("True", "False")


def _parse_positive(value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise _BadValue("an integer of at least 1")
    return number


def _parse_count(value: object) -> int:
    if str(value).strip() == "0" and not isinstance(value, bool):
        return 0
    try:
        return _parse_positive(value)
    except _BadValue:
        raise _BadValue("an integer of at least 0") from None


def _parse_size(value: object) -> int:
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            nbytes = parse_size(str(value))
        except ValueError:
            nbytes = 0
        if nbytes > 0:
            return nbytes
    raise _BadValue("a number of bytes above 0, or a size such as 500MB or 2GiB")


def _parse_path(value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise _BadValue("a path")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise _BadValue("a path below a home folder that exists") from None


def _parse_cache_dir(value: object) -> Path:
    """A path at which there may be a folder, or could be made one."""
    path = _parse_path(value)
    try:
        if any(len(os.fsencode(name)) > _LONGEST_NAME for name in path.parts):
            raise _BadValue(f"a path whose names have at most {_LONGEST_NAME} bytes each")
        os.lstat(path / _LONGEST_BELOW)
    except ValueError:
        raise _BadValue("a path without null characters") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _BadValue("a shorter path") from None
    return path


def _parse_name(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _BadValue("a non-empty string")
    return value.strip()


def _parse_target(value: object) -> DescribedTarget:
    if isinstance(value, DescribedTarget):
        return value
    found = find_target(value) if isinstance(value, str) else None
    if found is None:
        raise _BadValue(*target_names(), "the path of a .yaml file")
    return found


def _choice(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in names:
            raise _BadValue(*names)
        return str(value)

    return parse


def _optional(parse: Callable[[object], object]) -> Callable[[object], Any]:
    return lambda value: None if value is None else parse(value)


def _setting(
    help: str,
    parse: Callable[[object], object],
    *,
    default: object = None,
    default_factory: Callable[[], object] | None = None,
    env: str | None = None,
    affects_code: bool = False,
) -> Any:
    metadata = {"help": help, "parse": parse, "env": env, "affects_code": affects_code}
    if default_factory is not None:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one compilation. Make one with ``Settings.resolve``."""

    device: str | None = _setting(
        "Device to run on: part of a platform or device name, or a kind, with `:N`.",
        _optional(_parse_name),
        env="OCL_INDUCTOR_DEVICE",
    )
    fallback: str = _setting(
        "What to do with an operator without a lowering: run it in ATen and warn, or raise.",
        _choice("warn", "error"),
        default="warn",
        env="OCL_INDUCTOR_FALLBACK",
    )
    profile: str = _setting(
        "Shape of the generated code; auto takes the device's.",
        _choice("auto", "vector", "simt"),
        default="auto",
        env="OCL_INDUCTOR_PROFILE",
        affects_code=True,
    )
    target: DescribedTarget | None = _setting(
        "Compile as for this device, which need not be present: a name or a YAML file of facts.",
        _optional(_parse_target),
        env="OCL_INDUCTOR_TARGET",
        affects_code=True,
    )
    memory: str = _setting(
        "Memory strategy: zero copy over tensors, or explicit transfers; auto asks the device. "
        "buffers: as discrete, and `ocl` tensors without shared virtual memory.",
        _choice("auto", "unified", "discrete", "buffers"),
        default="auto",
        env="OCL_INDUCTOR_MEMORY",
        affects_code=True,
    )
    mode: str = _setting(
        "Effort: default, reduce-overhead (fewer checks a call), max-autotune (measure kernels).",
        _choice("default", "reduce-overhead", "max-autotune"),
        default="default",
        env="OCL_INDUCTOR_MODE",
        affects_code=True,
    )
    winograd: bool = _setting(
        "Allow Winograd's algorithm for 3x3 convolutions in float32: faster, fewer exact digits.",
        _parse_bool,
        default=True,
        env="OCL_INDUCTOR_WINOGRAD",
        affects_code=True,
    )
    matrix_unit: bool = _setting(
        "Allow products of bfloat16 and bytes, and float32 products as sums of bfloat16 ones, in a "
        "CPU's matrix unit (AMX), if any, and products of half types by a GPU's matrix "
        "instructions.",
        _parse_bool,
        default=True,
        env="OCL_INDUCTOR_MATRIX_UNIT",
        affects_code=True,
    )
    check_indices: bool = _setting(
        "Raise for an index out of range, as eager does; otherwise it counts as one in range.",
        _parse_bool,
        default=True,
        env="OCL_INDUCTOR_CHECK_INDICES",
        affects_code=True,
    )
    chain: bool = _setting(
        "Let short kernels that follow each other on a CPU device share a launch.",
        _parse_bool,
        default=True,
        env="OCL_INDUCTOR_CHAIN",
        affects_code=True,
    )
    calling_thread: bool = _setting(
        "Let small plans on a CPU device run in the calling thread, where its driver can do that.",
        _parse_bool,
        default=True,
        env="OCL_INDUCTOR_CALLING_THREAD",
    )
    exact_weights: bool = _setting(
        "See each write to packed weights at the next call, even if that means to read them all.",
        _parse_bool,
        default=False,
        env="OCL_INDUCTOR_EXACT_WEIGHTS",
    )
    cache: bool = _setting(
        "Keep plans and kernel binaries on disk.",
        _parse_bool,
        default=True,
        env="OCL_INDUCTOR_CACHE",
    )
    cache_dir: Path = _setting(
        "Folder of the disk cache.",
        _parse_cache_dir,
        default_factory=default_cache_dir,
        env=_CACHE_DIR,
    )
    cache_size_limit: int = _setting(
        "Bytes of kernels and plans to keep on disk; the least recently used go first.",
        _parse_size,
        default=2 * 1024**3,
        env="OCL_INDUCTOR_CACHE_SIZE_LIMIT",
    )
    debug_dir: Path | None = _setting(
        "Folder that receives each stage's dump; TORCH_COMPILE_DEBUG=1 sets torch's.",
        _optional(_parse_path),
        default_factory=_default_debug_dir,
        env="OCL_INDUCTOR_DEBUG_DIR",
    )
    verify: bool = _setting(
        "Check every stage's output.",
        _parse_bool,
        default=False,
        env="OCL_INDUCTOR_VERIFY",
    )
    progress: bool = _setting(
        "Show progress on a terminal when building kernels takes more than a few seconds.",
        _parse_bool,
        default=True,
        env="OCL_INDUCTOR_PROGRESS",
    )
    compile_threads: int = _setting(
        "Threads that build kernels at the same time.",
        _parse_positive,
        default_factory=_default_threads,
        env="OCL_INDUCTOR_COMPILE_THREADS",
    )
    compile_processes: int = _setting(
        "Processes that build kernels, so that the driver's compiler leaves no memory behind in "
        "this one; 0 builds here.",
        _parse_count,
        default_factory=_default_processes,
        env="OCL_INDUCTOR_COMPILE_PROCESSES",
    )

    @classmethod
    def resolve(cls, mode: str | None = None, options: Mapping[str, Any] | None = None) -> Settings:
        """Settings of one ``torch.compile`` call: `options`, then the environment, then defaults.

        `mode` is the keyword of ``torch.compile`` and wins over an option of that name.
        Raises UnknownOptionError for an unknown option, mode or value, and RequiredPatchError for
        a patch that cannot be off.
        """
        patches_off()  # a wrong value is an error here, as that of any other variable
        given = dict(options or {})
        if mode is not None:
            given["mode"] = mode
        known = {f.name: f for f in fields(cls)}
        for name in given:
            if name not in known:
                raise UnknownOptionError("option", name, sorted(known))
        values: dict[str, Any] = {}
        for name, spec in known.items():
            env = spec.metadata["env"]
            if name in given:
                value, origin = given[name], "mode" if name == "mode" else f"value of option {name}"
            elif env is not None and os.environ.get(env):
                value, origin = os.environ[env], f"value of {env}"
            else:
                continue
            try:
                values[name] = spec.metadata["parse"](value)
            except _BadValue as bad:
                raise UnknownOptionError(origin, value, bad.args) from None
        return cls(**values)

    def code_key(self) -> tuple[tuple[str, Any], ...]:
        """The settings that change generated code, as (name, value) pairs for cache keys."""
        return tuple(
            (f.name, getattr(self, f.name)) for f in fields(self) if f.metadata["affects_code"]
        )
