"""Finding OpenCL drivers: the ``.icd`` files on this machine, and the libraries they refer to.

A driver wheel may come with an ``.icd`` file that names a placeholder path, so that no loader finds
it; such a file is repaired. Nothing here opens a driver.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import site
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ocl_inductor.device import quirks
from ocl_inductor.device.driver.unregistered import unregistered

_SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")


@dataclass(frozen=True, slots=True)
class IcdFile:
    """One ``.icd`` file: its text, and the library that it refers to.

    ``library`` is empty where there is none, and ``problem`` says why; ``repaired``: the text names
    a placeholder, and the library was found elsewhere.
    """

    path: Path
    text: str
    library: str
    problem: str = ""
    repaired: bool = False


def find_drivers() -> list[str]:
    """Driver libraries, as an ``.icd`` file names them: paths, or names for the system's loader.

    Drivers without such a file come last.
    """
    files = (icd for folder in vendor_folders() if folder.is_dir() for icd in icd_files(folder))
    named = list(dict.fromkeys(icd.library for icd in files if icd.library))
    return [*named, *unregistered(named)]


def icd_files(folder: Path) -> list[IcdFile]:
    """The ``.icd`` files of a folder, by name."""
    return [_read_icd(path) for path in sorted(folder.glob("*.icd"))]


def vendor_folders() -> list[Path]:
    """Where ``.icd`` files are looked for; not all of them need to exist."""
    folders = [_SYSTEM_VENDORS]
    for prefix in (sys.prefix, site.getuserbase()):
        folders.append(Path(prefix, "etc", "OpenCL", "vendors"))
    # A wheel installed elsewhere (--target) is found through its metadata.
    for name in quirks.DRIVER_WHEELS:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        folders += [Path(str(f.locate())).resolve().parent for f in files if f.suffix == ".icd"]
    return list(dict.fromkeys([*folders, *_beside_the_loader()]))


def _beside_the_loader() -> Iterator[Path]:
    """The folder of libraries in pyopencl's wheel, into which other wheels put drivers."""
    found = importlib.util.find_spec("pyopencl")
    if found is not None and found.origin is not None:
        package = Path(found.origin).parent
        yield from (x for x in (package / ".libs", package.parent / "pyopencl.libs") if x.is_dir())


def _read_icd(path: Path) -> IcdFile:
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        return IcdFile(path, "", "", f"it cannot be read: {error}")
    if not text:
        return IcdFile(path, "", "", "it is empty")
    library = Path(text)
    if not library.is_absolute():
        if (path.parent / library).is_file():  # beside the loader
            return IcdFile(path, text, str(path.parent / library))
        return IcdFile(path, text, text)  # a name the dynamic loader resolves
    if library.exists():
        return IcdFile(path, text, str(library.resolve()))
    # <prefix>/etc/OpenCL/vendors/x.icd with a placeholder path: the file is in <prefix>/lib.
    beside = path.parents[3] / "lib" / library.name if len(path.parents) > 3 else library
    if beside.exists():
        return IcdFile(path, text, str(beside.resolve()), repaired=True)
    return IcdFile(path, text, "", f"the library it names does not exist: {text}")


@contextmanager
def vendor_folder(libraries: list[str]) -> Iterator[Path]:
    """A folder with one ``.icd`` a library and nothing else, while the loader reads it.

    The loader opens every library named there, so the folder is new each time, and private.
    Raises OSError where no folder can be made.
    """
    with tempfile.TemporaryDirectory(
        prefix="ocl_inductor_icd_", ignore_cleanup_errors=True
    ) as made:
        folder = Path(made)
        for number, library in enumerate(libraries):
            (folder / f"{number:02d}.icd").write_text(library + "\n")
        yield folder
