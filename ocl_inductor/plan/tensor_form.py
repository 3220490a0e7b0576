"""How the caller sees a tensor that a plan works on as it lies in memory."""

from __future__ import annotations

from typing import Literal, TypeAlias

#: As it lies there; as complex numbers, whose parts are what lies there, along a last dimension; as
#: their conjugates; as the negative of what is there. The last two are bits of a tensor of PyTorch.
TensorForm: TypeAlias = Literal["plain", "complex", "conjugate", "negative"]
