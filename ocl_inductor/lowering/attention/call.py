"""One attention, as its several lowerings take it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from ocl_inductor.ir.index import Size, is_static, same
from ocl_inductor.lowering.core.shapes import cast_value
from ocl_inductor.lowering.core.values import Value, expand, reshape
from ocl_inductor.operators.registry import CannotLower


@dataclass(frozen=True, slots=True)
class Attention:
    """``softmax(query @ key.T * scale + mask) @ value``, all with equal batch dimensions.

    ``query`` (\\*batch, m, width), ``key`` (\\*batch, n, width), ``value`` (\\*batch, n, v_width).
    ``mask`` broadcasts to (\\*batch, m, n); a bool one keeps where it is True. ``causal`` keeps the
    columns up to a row's own number. ``scale`` None: one over the root of the width. A row that
    sees nothing is zero, or NaN if ``empty_is_nan``.
    """

    query: Value
    key: Value
    value: Value
    mask: Value | None = None
    causal: bool = False
    scale: float | None = None
    empty_is_nan: bool = False

    @property
    def batch(self) -> tuple[Size, ...]:
        return self.query.size[:-2]

    @property
    def m(self) -> Size:
        return self.query.size[-2]

    @property
    def n(self) -> Size:
        return self.key.size[-2]

    @property
    def width(self) -> Size:
        return self.query.size[-1]

    @property
    def v_width(self) -> Size:
        return self.value.size[-1]

    @property
    def empty(self) -> bool:
        """Whether some extent is 0."""
        return any(same(s, 0) for v in (self.query, self.key, self.value) for s in v.size)

    def factor(self) -> float:
        """The scale as a number, where the width is one."""
        if self.scale is not None:
            return float(self.scale)
        return 1.0 / math.sqrt(int(self.width)) if int(self.width) else 1.0

    def cast(self, dtype: torch.dtype) -> Attention:
        """With query, key and value of another dtype."""
        query, key, value = (cast_value(v, dtype) for v in (self.query, self.key, self.value))
        return replace(self, query=query, key=key, value=value)

    def grouped(self) -> Attention:
        """Grouped queries: their heads split into (key heads, repeats), keys and values broadcast.

        The same attention where the head counts are equal.

        Raises:
            CannotLower: the query's heads are no multiple of the key's.
        """
        query, key, mask = self.query, self.key, self.mask
        if query.ndim < 3 or same(query.size[-3], key.size[-3]):
            return self
        heads, shared = query.size[-3], key.size[-3]
        if not is_static(heads) or not is_static(shared) or not same(shared, self.value.size[-3]):
            raise CannotLower("grouped query attention over these head counts")
        if int(heads) % int(shared):
            raise CannotLower(f"{heads} query heads over {shared} key heads")
        repeats = int(heads) // int(shared)
        size = (*query.size[:-3], int(shared), repeats, *query.size[-2:])

        def repeated(x: Value) -> Value:
            one = reshape(x, (*x.size[:-2], 1, *x.size[-2:]))
            return expand(one, (*x.size[:-2], repeats, *x.size[-2:]))

        if mask is not None and mask.ndim > 2:
            mask = expand(mask, (*query.size[:-1], self.n))
            mask = reshape(mask, (*size[:-1], self.n))
        return replace(
            self,
            query=reshape(query, size),
            key=repeated(key),
            value=repeated(self.value),
            mask=mask,
        )


def check_attention(query: Value, key: Value, value: Value, dropout_p: float) -> None:
    """What all lowerings of attention ask of its operands.

    Raises:
        CannotLower: they are on the host, or of types that do not fit; or there is dropout.
    """
    if not all(isinstance(v, Value) for v in (query, key, value)):
        raise CannotLower("an operand of attention lives on the host")
    if not query.dtype.is_floating_point or not query.dtype == key.dtype == value.dtype:
        raise CannotLower(f"attention of {query.dtype}, {key.dtype} and {value.dtype}")
    if dropout_p != 0.0:
        raise CannotLower("attention with dropout")
