"""The Python code that pyopencl generates to set a kernel's arguments, kept in memory.

pyopencl keeps it in a database below the user's cache folder, writes there each time it makes a
kernel object, and raises where that cannot be written: on a full disk, or without a home. To
generate the code takes 0.6 ms, so kernels with as many arguments share it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ocl_inductor.patches.switch import enabled


def keep_in_memory(pyopencl: ModuleType) -> None:
    """Replace pyopencl's database; call this before it has made a kernel object."""
    flag = "_PYOPENCL_NO_CACHE"
    if getattr(pyopencl, flag, True) or not enabled("pyopencl_invokers"):
        return  # the user switched it off, or this version has no such thing
    setattr(pyopencl, flag, True)  # so that importing the module opens no database
    try:
        from pyopencl import invoker
    finally:
        setattr(pyopencl, flag, False)
    invoker.invoker_cache = _InMemory()


class _InMemory:
    """The methods of pyopencl's database that it calls, over a dictionary.

    A key is a kernel's name and what its code depends on: the numbers and types of arguments. The
    name, which is part of a function's, is left out.
    """

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def __getitem__(self, key: tuple[object, ...]) -> Any:
        return self.known[repr(key[1:])]

    def store_if_not_present(self, key: tuple[object, ...], value: object) -> None:
        self.known.setdefault(repr(key[1:]), value)
