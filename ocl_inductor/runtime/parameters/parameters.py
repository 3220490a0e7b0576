"""Which parameters were replaced, moved or written since the last call of a plan."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.runtime.parameters.watch import Watch


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """A parameter's tensor and its address. There is no weak reference to the tensor itself:
    ``torch.utils.swap_tensors`` refuses those that have one.
    """

    tensor: int
    pointer: int
    storage: Callable[[], torch.UntypedStorage | None]

    @classmethod
    def of(cls, x: torch.Tensor) -> ParameterPlace:
        return cls(id(x), x.data_ptr(), weakref.ref(x.untyped_storage()))

    def holds(self, x: torch.Tensor) -> bool:
        """Whether ``x`` is that tensor, at the same address, in memory that was not freed since."""
        alive = self.storage() is not None
        return alive and id(x) == self.tensor and x.data_ptr() == self.pointer


class Parameters:
    """The state of a plan's parameters. It keeps copies of those named in ``copied``.

    ``separate``: each copy is updated separately, so that it matters which one was written. Those
    without an observed write still share one watch, which takes a hundredth of the time: one that
    turns out to be written, as by an optimiser, has a separate watch from then on.
    ``exact``: see :class:`Watch`. ``writes``: where every write is known (``ocl``), a number that
    changes with each; nothing is watched then.
    """

    def __init__(
        self,
        copied: Iterable[str],
        separate: bool = False,
        exact: bool = False,
        writes: Callable[[torch.Tensor], int] | None = None,
    ) -> None:
        self.copied = frozenset(copied)
        self.writes = writes
        self.separate = separate
        self.exact = exact
        #: Names that are watched together.
        self.groups = [self.copied]
        self.watches: dict[frozenset[str], Watch] = {}
        self._seen: dict[str, tuple[ParameterPlace, int]] = {}

    @property
    def watch(self) -> Watch:
        """The watch of all watched parameters, if there is a single one."""
        return self.watches.get(self.copied) or Watch(())

    def changed(
        self,
        present: Sequence[tuple[str, torch.Tensor]],
        nbytes: Callable[[str, torch.Tensor], int],
    ) -> set[str]:
        """Names of those that changed. ``nbytes`` gives the bytes in use of one of them."""
        moved, written = set(), set()
        for name, x in present:
            version = self.version(name, x)
            place, known = self._seen.get(name, (None, 0))
            if place is None or not place.holds(x):
                moved.add(name)
                place = ParameterPlace.of(x)
            # Without a version counter, it may have been written at any time.
            elif version != known or version < 0:
                written.add(name)
            self._seen[name] = place, version

        def watch(group: frozenset[str]) -> Watch:
            regions = [
                (x, nbytes(name, x))
                for name, x in present
                if name in group and not x.is_inference()
            ]
            return Watch(() if self.writes is not None else regions, self.exact)

        for group in tuple(self.groups):
            if not group.isdisjoint(moved):
                first = group not in self.watches
                self.watches[group] = watch(group)
                if first:
                    self.watches[group].take()
            elif not group.isdisjoint(written):
                if self.separate and len(group) > 1:
                    self._split(group, group & written, watch)
                    written |= group
                else:
                    self.watches[group].forget()
            elif group in self.watches and self.watches[group].changed():
                written |= group
        return moved | written

    def _split(
        self,
        group: frozenset[str],
        written: frozenset[str],
        watch: Callable[[frozenset[str]], Watch],
    ) -> None:
        """Give each of ``written`` a separate watch.

        The earlier state of the others is unknown then: they count as written this once.
        """
        rest = group - written
        new = [frozenset([name]) for name in sorted(written)] + ([rest] if rest else [])
        self.groups.remove(group)
        self.groups += new
        del self.watches[group]
        self.watches |= {part: watch(part) for part in new}
        if rest:
            self.watches[rest].take()

    def version(self, name: str, x: torch.Tensor) -> int:
        """A number that changes when a copied parameter is written; -1: unknown."""
        if name not in self.copied:
            return 0
        if self.writes is not None:
            return self.writes(x)
        return -1 if x.is_inference() else x._version

    def forget(self) -> None:
        """Treat all of them as changed at the next call."""
        self._seen.clear()
