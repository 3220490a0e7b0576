"""What all errors of this package have in common."""

from __future__ import annotations

from typing import Any


class OpenCLInductorError(RuntimeError):
    """Base of all errors of this backend. `facts` are the values that fill the message."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take the facts, not the message, so the default would call them wrongly.
        return _rebuild, (type(self), str(self), self.facts)


def _rebuild(cls: type[OpenCLInductorError], message: str, facts: dict[str, object]) -> Any:
    error = cls.__new__(cls, message)
    OpenCLInductorError.__init__(error, message, **facts)
    return error
