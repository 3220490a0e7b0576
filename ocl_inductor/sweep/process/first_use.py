"""What the first compilation on a machine leaves in the caches, whichever model it is for.

Inductor compiles four programs to learn which vector instructions the compiler knows: 15 s on two
cores, three times what ResNet-18's own kernels take. This backend asks the drivers what they are. A
machine pays for that once and a model's first call must not, so that every process which measures
one starts from these caches.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ocl_inductor.sweep.process.backends import Backend


@dataclass(frozen=True, slots=True)
class FirstUse:
    """The caches of each backend after its first use. Eager has none.

    Attributes:
        run: use a backend for the first time, with its caches in the folder.
    """

    run: Callable[[Backend, Path], None]
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="sweep-first-use-")
    )
    _made: dict[str, Path] = field(default_factory=dict)

    def caches(self, backend: Backend, target: Path) -> None:
        """Fill ``target``, a folder that does not exist, with these caches."""
        if backend.is_eager:
            return
        made = self._made.get(backend.label)
        if made is None:
            made = Path(self._folder.name, str(len(self._made)))
            made.mkdir()
            self.run(backend, made)
            self._made[backend.label] = made
        shutil.copytree(made, target)
