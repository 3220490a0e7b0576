"""How the caller sees a result that lies in memory."""

from __future__ import annotations

from typing import Literal, TypeAlias

#: As it is; as complex numbers, whose parts lie along the last dimension; as their conjugates; as
#: the negative of what is there. The last two are bits of a tensor, as in eager.
OutputForm: TypeAlias = Literal["plain", "complex", "conjugate", "negative"]
