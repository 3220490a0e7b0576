"""How many graphs a program may have compiled: a structure that is new each time must not be."""

from __future__ import annotations

from ocl_inductor.log import logger
from ocl_inductor.runtime.counters import count

_log = logger(__name__)
_MOST = 64
#: Uses of plans that are worth another compilation.
_USES = 4
_EXHAUSTED = (
    "Lazy graphs keep changing: %d were compiled, and few were used again. From now on new ones "
    "run operator by operator until others are found again. Sizes or Python values that change "
    "each time make another graph (docs/ocl.md, Lazy mode)."
)


class Budget:
    """Compilations that are left. Each use of what was compiled earns a part of one."""

    def __init__(self) -> None:
        self._left = float(_MOST)
        self._made = 0
        self._said = False

    def used(self) -> None:
        """A plan was found again."""
        if self._left < _MOST:
            self._left += 1 / _USES

    def spend(self) -> bool:
        """Whether there is one more; it is spent."""
        if self._left < 1:
            count("lazy_over_budget")
            if not self._said:
                self._said = True
                _log.warning(_EXHAUSTED, self._made)
            return False
        self._left -= 1
        self._made += 1
        return True
