"""Writes to memory that overlaps itself, or other memory that the same call reads.

Eager refuses most of them, as the result would depend on an order. Compiled, the reads would come
first, and a number would be returned; and ``x.expand(2, 3).fill_(1)``, which eager accepts, is no
such write in a graph without mutation. So the memory of tensors in Dynamo's graph is compared, as
in ``aten/src/ATen/MemoryOverlap.cpp``, and eager decides.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from ocl_inductor.support.torch_versions import node_hint

#: In-place methods that write nothing.
_HARMLESS = frozenset(
    "detach_ requires_grad_ resize_ resize_as_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ "
    "swapdims_ as_strided_ rename_ set_ share_memory_".split()
)
#: Operators that read through indices, or all before they write: exact aliases are refused, too.
_NOT_THE_SAME = frozenset(
    "take gather index_select cat concat concatenate stack put_ index_put_ index_copy_ index_add_ "
    "scatter_ scatter_add_ scatter_reduce_ index_reduce_ masked_scatter_".split()
)
#: ``iadd`` has an ``add``; ``invert`` has no ``nvert``.
_IN_PLACE_OPERATORS = frozenset(
    f
    for name, f in vars(operator).items()
    if name[0] == "i" and {f"__{name}__", f"__{name[1:]}__"} <= vars(operator).keys()
)
_PLAIN_INDICES = (int, slice, type(None), type(...))

_SHARED = "it writes to memory that it reads elsewhere"


def overlap(node: Node) -> str:
    """Why a node's write conflicts with its reads, or "" if it does not, as far as is known."""
    found = _written(node)
    if found is None:
        return ""
    written, read, may_be_the_same = found
    at_storage: dict[int, list[torch.Tensor]] = {}
    for r in read:
        at_storage.setdefault(_storage(r), []).append(r)
    for w in written:
        if _meets_itself(w):
            return "two elements that it writes lie in one place"
        for r in at_storage.get(_storage(w), ()):
            if r is w:
                if not may_be_the_same:
                    return _SHARED
            elif _shared(w, r) and not (may_be_the_same and _layout(w) == _layout(r)):
                return _SHARED
    return ""


def _written(node: Node) -> tuple[list[torch.Tensor], list[torch.Tensor], bool] | None:
    """Tensors that a node writes, others that it reads, and whether these may be the same."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    name = name.partition(".")[0]
    allowed = name not in _NOT_THE_SAME
    if node.op not in ("call_function", "call_method"):
        return None
    out = node.kwargs.get("out")
    if out is not None:
        read = [node.args, {k: v for k, v in node.kwargs.items() if k != "out"}]
        return list(_tensors(out)), list(_tensors(read)), allowed
    if node.target is operator.setitem:
        x, index, value = node.args
        target = _part(_of(x), index)
        if target is None:
            return None
        # The row of an expanded tensor is a view that does not show the expansion.
        return [_of(x) if _meets_itself(_of(x)) else target], list(_tensors(value)), True
    in_place = name.endswith("_") and not name.endswith("__") and name not in _HARMLESS
    if node.args and (in_place or node.target in _IN_PLACE_OPERATORS):
        return list(_tensors(node.args[:1])), list(_tensors([node.args[1:], node.kwargs])), allowed
    return None


def _of(argument: object) -> Any:
    return argument.meta.get("example_value") if isinstance(argument, Node) else argument


def _tensors(arguments: object) -> Iterator[torch.Tensor]:
    """The tensors whose memory is known: plain ones with strides."""
    for x in map(_of, tree_leaves(arguments, is_leaf=lambda x: isinstance(x, Node))):
        plain = isinstance(x, torch._subclasses.FakeTensor) and x.layout is torch.strided
        if plain and not x.is_sparse and x.device.type != "meta":
            yield x


def _part(x: Any, index: Any) -> torch.Tensor | None:
    """``x[index]`` where that is certainly a view."""
    indices = index if isinstance(index, tuple) else (index,)
    plain = all(
        isinstance(i, _PLAIN_INDICES) and not isinstance(i, bool)
        and (not isinstance(i, slice) or not any(
            isinstance(end, Node) for end in (i.start, i.stop, i.step)))
        for i in indices
    )  # fmt: skip
    if not plain or not any(True for _ in _tensors(x)):
        return None
    with x.fake_mode:
        return x[index]  # type: ignore[no-any-return]


def _layout(x: torch.Tensor) -> tuple[int, ...]:
    """Offset, sizes and strides, in elements, with those of the example for symbolic ones."""
    numbers = (x.storage_offset(), *x.shape, *x.stride())
    return tuple(int(n if isinstance(n, int) else node_hint(n.node)) for n in numbers)


def _meets_itself(x: torch.Tensor) -> bool:
    """Whether two elements certainly overlap; strides that only may overlap are not examined."""
    layout = _layout(x)
    sizes, strides = layout[1 : 1 + x.ndim], layout[1 + x.ndim :]
    return 0 not in sizes and any(n > 1 and s == 0 for n, s in zip(sizes, strides, strict=True))


def _span(x: torch.Tensor) -> tuple[int, int] | None:
    """The range of bytes that it covers; None where there are gaps, or no bytes."""
    offset, *rest = _layout(x)
    sizes, strides = rest[: x.ndim], rest[x.ndim :]
    count = 1
    for stride, n in sorted(zip(strides, sizes, strict=True)):
        if n != 1:
            if stride != count:
                return None
            count *= n
    return (offset * x.itemsize, (offset + count) * x.itemsize) if count else None


def _storage(x: torch.Tensor) -> int:
    """The identity of a tensor's storage, equal for views of one another."""
    return int(x.untyped_storage()._cdata)


def _shared(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one storage certainly have bytes in common."""
    first, second = _span(a), _span(b)
    return (
        first is not None and second is not None and (first[0] < second[1] and second[0] < first[1])
    )
