"""Driver libraries that no ``.icd`` file names.

Containers with a GPU get its driver's libraries from the host, but not the host's ``/etc/OpenCL``:
the driver is present, and no OpenCL program finds it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ocl_inductor.device.quirks import LIBRARY_FOLDERS, UNREGISTERED, Unregistered


def unregistered(named: Sequence[str]) -> list[str]:
    """Paths of drivers on this machine that are not among ``named``, a path or name each."""
    folders = [x for x in os.environ.get("LD_LIBRARY_PATH", "").split(":") if x]
    return list(_missing(named, [*folders, *LIBRARY_FOLDERS], UNREGISTERED))


def _missing(
    named: Sequence[str], folders: Iterable[str], drivers: Iterable[Unregistered]
) -> Iterable[str]:
    for driver in drivers:
        if any(Path(x).name.startswith(driver.library) for x in named):
            continue
        found = next((x for f in folders if (x := _newest(Path(f), driver)) is not None), None)
        if found is not None:
            yield str(found.resolve())


def _newest(folder: Path, driver: Unregistered) -> Path | None:
    """The driver in a folder that also has its dependency; several versions: the highest one."""
    try:
        found = [x for x in folder.glob(f"{driver.library}.so*") if x.exists()]
        needed = next(folder.glob(f"{driver.beside}.so*"), None)
    except OSError:  # an unreadable folder
        return None
    return max(found, key=_version, default=None) if needed is not None else None


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(x) for x in re.findall(r"\d+", path.name))
