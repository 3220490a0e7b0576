"""Whether and how a loop nest matches the iteration space of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sympy

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import loads
from ocl_inductor.ir.index import Size, contiguous_strides, linear, loop_vars, prod, same
from ocl_inductor.ir.nodes import Loop
from ocl_inductor.schedule.align import RefinedDimension, mixed_radix, refine
from ocl_inductor.schedule.fusion_group import FusionGroup
from ocl_inductor.schedule.groups import Decision

#: A typical value of a size, for choices that affect speed but not results.
Hint: TypeAlias = Callable[[Size], int]


@dataclass(frozen=True, slots=True)
class SpaceMatch:
    """A loop in a kernel's space: the kernel's refined dimensions, the loop's variables there."""

    outer: list[Size]
    inner: list[Size]
    kernel_map: dict[sympy.Symbol, sympy.Expr]
    loop_map: dict[sympy.Symbol, sympy.Expr]
    row: bool


def match_iteration_space(
    kernel: FusionGroup, node: Loop, device: DeviceInfo, hint: Hint
) -> SpaceMatch | Decision:
    """Find the access through which the two nests correspond."""
    reason = "no common affine access"
    for anchor, access in _anchors(kernel, node):
        fit = _fit_at(kernel, node, anchor, access, device, hint)
        if isinstance(fit, SpaceMatch):
            return fit
        reason = fit.reason
    return Decision(False, reason)


def _anchors(kernel: FusionGroup, node: Loop) -> list[tuple[sympy.Expr, sympy.Expr]]:
    """Pairs (index in the kernel's variables, index in the node's) of the same element."""
    found: list[tuple[sympy.Expr, sympy.Expr]] = []
    node_loads = [x.payload for x in loads(node.body) if not x.args]
    own = kernel.writes()
    for access in node_loads:
        if access.buffer in own:
            found.append((kernel.store_index(access.buffer), access.index))
    # The widest producer access first: it maps the most variables.
    found.sort(key=lambda pair: -len(pair[1].free_symbols))
    if found or kernel.template is not None:
        return found
    everything = set(loop_vars(len(kernel.sizes)))
    for access in node_loads:
        for m in kernel.members:
            found += [
                (x.payload.index, access.index)
                for x in loads(m.body)
                if x.payload.buffer == access.buffer
                and not x.args
                # A broadcast read does not determine how the nests correspond.
                and everything <= x.payload.index.free_symbols
            ]
    return found[:4]


def _fit_at(
    kernel: FusionGroup,
    node: Loop,
    anchor: sympy.Expr,
    access: sympy.Expr,
    device: DeviceInfo,
    hint: Hint,
) -> SpaceMatch | Decision:
    sizes = kernel.sizes
    kernel_vars = loop_vars(len(sizes))
    node_sizes = list(node.ranges + node.reduction_ranges)
    node_vars = loop_vars(len(node_sizes))
    a = mixed_radix(anchor, kernel_vars, sizes, hint)
    b = mixed_radix(access, node_vars, node_sizes, hint)
    if a is None or b is None:
        return Decision(False, "an index is not affine")
    pieces = refine(a, b)
    if pieces is None:
        return Decision(False, f"extents {[s for _, s in a]} and {[s for _, s in b]} differ")
    left_kernel = [
        (d, s) for d, s in enumerate(sizes) if d not in {x for x, _ in a} and not same(s, 1)
    ]
    left_node = [
        (d, s) for d, s in enumerate(node_sizes) if d not in {x for x, _ in b} and not same(s, 1)
    ]
    row = False
    if left_kernel and left_node:
        more = refine(left_kernel, left_node)
        if more is None:
            return Decision(False, "the swept dimensions differ in extent")
        pieces = pieces + more
    elif left_kernel:
        inner_dims = {d for d in range(len(kernel.outer), len(sizes)) if not same(sizes[d], 1)}
        if {d for d, _ in left_kernel} != inner_dims or node.kind == "reduction":
            return Decision(False, "covers only part of the kernel's space")
        row = True
    elif left_node:
        return Decision(False, "needs dimensions that the kernel does not have")
    return _place(kernel, node, pieces, row, device, hint)


def _place(
    kernel: FusionGroup,
    node: Loop,
    pieces: list[RefinedDimension],
    row: bool,
    device: DeviceInfo,
    hint: Hint,
) -> SpaceMatch | Decision:
    """Turn matched pieces into the kernel's new dimensions and both variable maps."""
    reduced = set(range(len(node.ranges), len(node.ranges) + len(node.reduction_ranges)))
    by_dim: dict[int, list[RefinedDimension]] = {}
    for piece in pieces:
        by_dim.setdefault(piece.a, []).append(piece)
    outer_count = len(kernel.outer)
    outer: list[RefinedDimension] = []
    inner: list[RefinedDimension] = []
    for d, size in enumerate(kernel.sizes):
        if d in by_dim:
            parts = by_dim[d]
        elif same(size, 1):
            continue
        else:
            parts = [RefinedDimension(size, d, -1)]  # a swept dimension that a row member skips
            pieces = [*pieces, *parts]
        (outer if d < outer_count else inner).extend(parts)
    if node.kind == "reduction":
        swept = [p for p in outer + inner if p.b in reduced]
        if kernel.inner or kernel.has_reduction:
            if any(p.b not in reduced for p in inner) or any(p.b in reduced for p in outer):
                return Decision(False, "reduces other dimensions than the kernel")
        else:
            outer, inner = [p for p in outer if p.b not in reduced], swept
            decision = _worth_sweeping(outer, inner, device, hint)
            if not decision.ok:
                return decision
    order = outer + inner
    names = {id(p): v for p, v in zip(order, loop_vars(len(order)), strict=True)}
    node_dims = len(node.ranges) + len(node.reduction_ranges)
    return SpaceMatch(
        [p.size for p in outer],
        [p.size for p in inner],
        _combine(pieces, names, lambda p: p.a, len(kernel.sizes)),
        _combine(pieces, names, lambda p: p.b, node_dims),
        row,
    )


def _worth_sweeping(
    outer: list[RefinedDimension], inner: list[RefinedDimension], device: DeviceInfo, hint: Hint
) -> Decision:
    """Whether fusion pays off: with a reduction, a pointwise kernel loses parallel dimensions."""
    rows = hint(prod([p.size for p in outer]))
    swept = hint(prod([p.size for p in inner]))
    if rows < 4 * device.compute_units and swept > 4096:
        return Decision(False, f"only {rows} rows would be left to run in parallel")
    return Decision(True)


def _combine(
    pieces: Sequence[RefinedDimension],
    variables: dict[int, sympy.Symbol],
    dim_of: Callable[[RefinedDimension], int],
    count: int,
) -> dict[sympy.Symbol, sympy.Expr]:
    """Each old variable as the row-major number formed by its pieces; unmatched ones are 0.

    ``pieces`` lists the pieces of any one dimension outermost first; ``variables`` gives the new
    variable of a piece by identity (equal pieces may occur twice).
    """
    result: dict[sympy.Symbol, sympy.Expr] = {}
    old = loop_vars(count)
    for d in range(count):
        parts = [p for p in pieces if dim_of(p) == d]
        strides = contiguous_strides([p.size for p in parts])
        result[old[d]] = linear([variables[id(p)] for p in parts], strides)
    return result
