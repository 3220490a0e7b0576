"""Which patches are off: ``OCL_INDUCTOR_PATCHES_OFF=name,name`` or ``all``.

A variable and no option of a compilation: most patches act on the whole process. It is read when a
patch is about to be applied; what is in force already stays.
"""

from __future__ import annotations

import functools
import os

from ocl_inductor.errors import RequiredPatchError, UnknownOptionError
from ocl_inductor.patches.table import PATCHES, patch_named

PATCHES_OFF = "OCL_INDUCTOR_PATCHES_OFF"
_ALL = "all"


def enabled(name: str) -> bool:
    """Whether a patch that can be off is to be applied.

    Raises:
        UnknownOptionError: the variable names no patch.
        RequiredPatchError: it names one that cannot be off.
    """
    patch = patch_named(name)
    assert patch is not None and patch.required is None, name
    return name not in patches_off()


def patches_off() -> frozenset[str]:
    """Names of the patches that are switched off. Raises as ``enabled`` does."""
    return _parsed(os.environ.get(PATCHES_OFF, ""))


@functools.cache
def _parsed(text: str) -> frozenset[str]:
    optional = frozenset(p.name for p in PATCHES if p.required is None)
    names = {part for part in (part.strip() for part in text.split(",")) if part}
    for name in sorted(names - {_ALL}):
        patch = patch_named(name)
        if patch is None:
            raise UnknownOptionError(f"value of {PATCHES_OFF}", name, [_ALL, *sorted(optional)])
        if patch.required is not None:
            raise RequiredPatchError(name, patch.required, PATCHES_OFF)
    return optional if _ALL in names else frozenset(names)
