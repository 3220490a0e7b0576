"""The call of a plan as one generated function.

Around a kernel of 2 µs, checks in loops and through several objects take longer than the kernel,
the more so as the kernel's data has displaced the interpreter's: three layers of
``tanh(Linear(64, 64))`` took 25.4 µs a call, and 22.6 with the same checks unrolled for the plan
(eager: 24.0). So facts of the plan choose the statements of its function: which kernels it
launches with which sizes, where it waits, what it checks. A call that has to bind everything runs
the same statements after that.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jinja2

from ocl_inductor.device import fork
from ocl_inductor.device.device import Device
from ocl_inductor.device.failure import check
from ocl_inductor.plan.plan import HostCall, OutputSpec, Plan, Step
from ocl_inductor.resident.tensors import note_write
from ocl_inductor.runtime import recording
from ocl_inductor.runtime.call.fast_path import CONSTANT, INPUT, INPUT_VIEW, OUTPUT
from ocl_inductor.runtime.call.faults import Faults
from ocl_inductor.runtime.call.guards import Guards
from ocl_inductor.runtime.call.host_calls import HostCalls
from ocl_inductor.runtime.call.launch_site import LaunchSite
from ocl_inductor.runtime.discrete.discrete import DiscreteMemory
from ocl_inductor.runtime.memory.recycling import Recycler
from ocl_inductor.runtime.memory.resident import ResidentMaker
from ocl_inductor.runtime.memory.reuse import Reuse
from ocl_inductor.runtime.memory.scratch import Scratch
from ocl_inductor.runtime.memory.strategy import Strategy, UnifiedMemory
from ocl_inductor.runtime.plan_index import PlanIndex
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.runtime.stream import CommandStream


class Launched(Protocol):
    """An executor, as its function uses it."""

    plan: Plan
    processor: Device
    plan_index: PlanIndex
    sizes: Sizes
    stream: CommandStream
    memory: Strategy
    discrete: DiscreteMemory | None
    scratch: Scratch
    sites: dict[int, LaunchSite]
    host_calls: HostCalls
    faults: Faults | None
    guards: Guards | None
    reuse: Reuse | None


@dataclass(frozen=True, slots=True)
class Launcher:
    """``call(*inputs)`` if ``spread``, else ``call([*inputs])``, whose list holds the only
    references to them. Optional further arguments: the stream, its queue, what launches a kernel
    there, and whether to repeat the call after a shortage of memory.

    ``launches(queue, enqueue)``, of plans that are recorded, runs all launches of the steps and
    returns the event of the last one.
    """

    call: Callable[..., tuple[Any, ...]]
    spread: bool
    launches: Callable[[Any, Callable[..., Any]], Any] | None


@dataclass(frozen=True, slots=True)
class _Statement:
    """A step in the text. ``made``: of a host call, the outputs among its results, as text;
    ``done``: after the launch, results may be downloaded."""

    number: int
    host: bool
    made: str = "{}"
    done: bool = False


def launcher_of(
    executor: Launched, own: Mapping[str, Any], names: dict[str, Any], recorded: bool
) -> Launcher:
    """Generate the function, with ``names`` as its global names: the state of guards (guards.py),
    what is added to it here, and ``own``, the executor's part of a call. ``recorded``: ``replay``,
    which the caller adds to ``names``, runs the launches where everything is bound."""
    plan, guards = executor.plan, executor.guards
    names |= {**_names(executor), **own}
    spread = guards is not None and executor.reuse is None
    inputs = [f"t{n}" for n, _ in enumerate(plan.inputs)]
    prologue, steps = _statements(executor, names)
    scratch = bool(plan.slots)
    facts: dict[str, object] = {
        "inputs": inputs,
        "spread": spread,
        "given": f"[{', '.join(inputs)}]" if spread else "tensors",
        "guarded": guards is not None,
        "prologue": prologue,
        "steps": steps,
        "host_calls": any(s.host for s in (*prologue, *steps)),
        "scratch": scratch,
        "arena": "arena" if scratch else "None",
        "reuse": executor.reuse is not None,
        "replay": recorded,
        "dynamic": executor.sizes.dynamic,
        "discrete": executor.discrete is not None,
        "in_place": executor.discrete is None and plan.residence is None,
        "faults": executor.faults is not None,
        "resident": plan.residence is not None,
        "copied": (),
    }
    if guards is not None:
        facts |= _guarded(executor, guards, names)
    source = _template().render(facts)
    exec(compile(source, "<launcher>", "exec"), names)
    return Launcher(names["call"], spread, names.get("launches"))


def _names(executor: Launched) -> dict[str, Any]:
    """Global names of every function but those of its steps and guards."""
    stream, pool = executor.stream, executor.scratch.pool
    names: dict[str, Any] = {
        "enqueue": stream.cl.enqueue_nd_range_kernel,
        "executor": executor,
        "finish": executor.memory.finish,
        "fork": fork,
        "usable": check,
        "get_ident": threading.get_ident,
        "give": pool.give,
        "host_call": executor.host_calls.run,
        "memory": executor.memory,
        "note_write": note_write,
        "own": stream,
        "queue": stream.queue,
        "recording": recording,
        "sizes": executor.sizes,
        "take": pool.take_last,
    }
    if executor.faults is not None:
        names |= {"fault": executor.faults.words, "check": executor.faults.check}
    if executor.reuse is not None:
        names |= {"begin": executor.reuse.begin, "end": executor.reuse.end}
    discrete = executor.discrete
    if discrete is not None:
        names |= {
            "arrivals": discrete.arrivals,
            "ready": discrete.ready,
            "settle": discrete.settle,
        }
    return names


def _statements(
    executor: Launched, names: dict[str, Any]
) -> tuple[list[_Statement], list[_Statement]]:
    """Prologue and steps, without launches over nothing; what they use is added to ``names``."""
    plan, plan_index = executor.plan, executor.plan_index
    outputs = {b.name: n for n, b in enumerate(plan_index.outputs)}
    numbers = itertools.count()

    def statement(step: Step) -> _Statement | None:
        n = next(numbers)
        if isinstance(step, HostCall):
            names[f"step_{n}"] = step
            written = outputs.get(step.results) if isinstance(step.results, str) else None
            made = "{}" if written is None else f"{{{step.results!r}: x{written}}}"
            return _Statement(n, host=True, made=made)
        site = executor.sites[id(step)]
        names[f"kernel_{n}"], names[f"local_size_{n}"] = site.kernel, step.local_size
        if executor.sizes.dynamic:
            names[f"prepare_{n}"] = site.prepare
        else:
            size = names[f"global_size_{n}"] = site.prepare(executor.sizes)
            if 0 in size:
                return None
        if executor.discrete is not None:
            names[f"read_{n}"] = tuple(map(plan_index.root, step.buffers))
            names[f"done_{n}"] = plan_index.done_after.get(id(step), ())
        return _Statement(n, host=False, done=bool(names.get(f"done_{n}")))

    prologue, steps = (
        [s for s in map(statement, part) if s is not None] for part in (plan.prologue, plan.steps)
    )
    return prologue, steps


def _guarded(executor: Launched, guards: Guards, names: dict[str, Any]) -> dict[str, object]:
    """Facts and names of a function that may find everything bound."""
    plan, memory, fast_path = executor.plan, executor.memory, guards.fast_path
    assert isinstance(memory, UnifiedMemory)
    for n, argument in fast_path.inputs:
        names |= {f"stride_{n}": plan.inputs[n].stride, f"input_{n}": argument}
    names |= {f"output_{n}": argument for n, argument in enumerate(fast_path.outputs)}
    names |= {"arguments": fast_path.arguments, "version": memory.version}
    #: Outputs that may be parts of a larger tensor's memory.
    parts = {
        n
        for n, maker in enumerate(guards.makers.values())
        if executor.reuse is not None or not isinstance(maker, Recycler | ResidentMaker)
    }

    def result(number: int, how: int, n: int, o: OutputSpec) -> str:
        if how == CONSTANT:
            names[f"constant_{number}"] = o.value
            return f"constant_{number}"
        tensor = f"t{n}" if how in (INPUT, INPUT_VIEW) else f"x{n}"
        if how in (INPUT, OUTPUT):
            return tensor
        begins = f"{tensor}.storage_offset() + " if how == INPUT_VIEW or n in parts else ""
        return f"{tensor}.as_strided({o.size}, {o.stride}, {begins}{o.offset})"

    return {
        "checked": fast_path.parameters,
        "copied": guards.copied,
        "passed": [n for n, _ in fast_path.inputs],
        "outputs": len(fast_path.outputs),
        "results": [result(number, *found) for number, found in enumerate(fast_path.results)],
        "noted": fast_path.noted,
        "unaligned": memory.unaligned,
        "buffers": memory.buffers_by_address,
    }


@functools.cache
def _template() -> jinja2.Template:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("ocl_inductor.runtime.call", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    ).get_template("launcher.py.jinja")
