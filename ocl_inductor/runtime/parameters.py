"""Which parameters were replaced, moved or written since the last call of a plan."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence

import torch

from ocl_inductor.runtime.samples import Samples


class Parameters:
    """What a plan knows of its parameters. Of those named in ``copied`` it keeps copies."""

    def __init__(self, copied: Iterable[str]) -> None:
        self.copied = set(copied)
        self.samples = Samples(())
        self._seen: dict[str, tuple[Callable[[], torch.Tensor | None], int, int]] = {}

    def changed(
        self,
        present: Sequence[tuple[str, torch.Tensor]],
        nbytes: Callable[[str, torch.Tensor], int],
    ) -> set[str]:
        """Names of those that changed. ``nbytes`` gives the bytes in use of one of them."""
        changed = {name for name, x in present if self._differs(name, x)}
        if not changed and self.samples.changed():
            return set(self.copied)
        if changed & self.copied:
            # Tensors without a version counter count as changed at each call anyway.
            self.samples = Samples(
                (x, nbytes(name, x))
                for name, x in present
                if name in self.copied and not x.is_inference()
            )
        return changed

    def version(self, name: str, x: torch.Tensor) -> int:
        """What changes when a parameter is written that is copied; -1: nobody knows."""
        if name not in self.copied:
            return 0
        return -1 if x.is_inference() else x._version

    def forget(self) -> None:
        """Let all of them count as changed at the next call."""
        self._seen.clear()

    def _differs(self, name: str, x: torch.Tensor) -> bool:
        """Whether a parameter is another tensor, moved, or, if copied, was written in place.

        Tensors made under inference_mode have no version counter, so any of them may have been
        written: they count as changed at each call.
        """
        version = self.version(name, x)
        pointer = x.data_ptr()
        reference, *state = self._seen.get(name, (_no_tensor, 0, 0))
        if reference() is x and state == [pointer, version] and version >= 0:
            return False
        self._seen[name] = (weakref.ref(x), pointer, version)
        return True


def _no_tensor() -> None:
    """Stands for a weak reference to nothing."""
