"""Values that may be read only where a condition holds, as branches in the C code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ocl_inductor.codegen.emitted import Text
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Expr, walk

if TYPE_CHECKING:
    from ocl_inductor.codegen.emitter import Emitter


def emit_masked(emitter: Emitter, e: Expr) -> Text:
    """``masked(condition, value, other)``: reads of ``value`` happen only where it holds."""
    condition, value, other = e.args
    if condition.op == "const":
        return emitter.emit(value if condition.payload else other)
    test = emitter.emit(condition)
    reads = any(n.op == "load" for n in walk(value))
    if not reads:
        return emitter.emit(Expr("where", (condition, value, other), e.dtype))
    if not test.lanes:
        return _branch(emitter, e, test.text)
    return _lanewise(emitter, e, test.text)


def _branch(emitter: Emitter, e: Expr, test: str) -> Text:
    """All lanes agree: a plain branch around the reads."""
    _, value, other = e.args
    lanes = emitter.vector_var is not None and (
        emitter.vector_var in emitter.free(value) or emitter.vector_var in emitter.free(other)
    )
    kind = register_type(e.dtype, emitter.width if lanes else 1)
    name = emitter.fresh("m")
    start = emitter.emit(other)
    start_text = emitter.broadcast(start, other.dtype) if lanes else start.text
    emitter.line(f"{kind} {name} = {start_text};")
    with emitter.block(f"if ({test})", guarded=True):
        inside = emitter.emit(value)
        text = emitter.broadcast(inside, value.dtype) if lanes else inside.text
        emitter.line(f"{name} = {text};")
    result = Text(name, lanes)
    emitter.scopes[-1].known[e] = result
    return result


def _lanewise(emitter: Emitter, e: Expr, test: str) -> Text:
    """Lanes differ: whole vectors where all lanes hold, else one lane after the other."""
    _, value, other = e.args
    name, array = emitter.fresh("m"), emitter.fresh("lane")
    kind = register_type(e.dtype, emitter.width)
    emitter.line(f"{kind} {name} = {emitter.vectorised(other)};")
    with emitter.block(f"if (all({test}))", guarded=True):
        emitter.line(f"{name} = {emitter.vectorised(value)};")
    with emitter.block(f"else if (any({test}))", guarded=True):
        scalar_kind = register_type(e.dtype, 1)
        emitter.line(f"{scalar_kind} {array}[{emitter.width}];")
        emitter.line(f"vstore{emitter.width}({name}, 0, {array});")
        counter = emitter.fresh("l")
        with emitter.block(
            f"for (int {counter} = 0; {counter} < {emitter.width}; ++{counter})", guarded=True
        ):
            lane = emitter.lane(counter)
            lane_test = lane.emit(e.args[0]).text
            with lane.block(f"if ({lane_test})", guarded=True):
                text = lane.emit(value).text
                if e.dtype is torch.bool:
                    text = f"-({text})"  # back to a lane's truth
                lane.line(f"{array}[{counter}] = {text};")
            emitter.scopes[-1].lines += lane.scopes[-1].lines
        emitter.line(f"{name} = vload{emitter.width}(0, {array});")
    result = Text(name, True)
    emitter.scopes[-1].known[e] = result
    return result
