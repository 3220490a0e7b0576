"""Consecutive launches as one, whose work-items go on together from each to the next.

Between two launches a CPU driver waits for all cores and then wakes them up, which takes longer
than to hand the work over inside a kernel. Here a launch's work-items are the pieces of a part, and
each member of a team, a work-item for every core, does its share of them: always the same one, so
that a core finds in its caches what it has written. Who has done its share takes pieces from the
others, then waits until all pieces of the part are done.

It ends on any number of threads, one included: all pieces of a part that is waited for were taken
by members that run.

Calls at batch 1 in ms, Intel's driver on two cores of an EPYC (Zen 4), medians of turns in one
process: mobilenet_v3_large 4.79 with a launch each, 4.53 with pieces taken in their order, 4.2
with shares; mobilenet_v2 7.72 and 9.09 in their order, in a later run 4.96 and 4.61 with shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.launches.joined import MAX_PARTS, JoinedKernels, joinable, work_items
from ocl_inductor.codegen.launches.single_core import saved_by_others, seconds_alone
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.plan.kernel_code import Definition
from ocl_inductor.plan.one_item import function_head
from ocl_inductor.plan.plan import PROGRESS

#: A kernel that runs for so many launches' time gains nothing that one would notice.
_LONGEST = 100

# Words of the buffer ``progress``; those that all members write have a cache line of their own.
_DONE, _LEFT, _TAKEN = 0, 16, 32


def progress_words(members: int) -> int:
    """Words that the members of a team share."""
    return _TAKEN + MAX_PARTS * members


def can_join(source: KernelSource, cost: Cost, device: DeviceInfo) -> bool:
    """Whether a kernel may be a part of a team, and is short enough to gain by it."""
    if not device.teams or not joinable(source, cost, device):
        return False
    seconds = seconds_alone(cost, device) - saved_by_others(cost, work_items(source), device)
    return seconds < _LONGEST * device.launch_s


def team(sources: Sequence[KernelSource], device: DeviceInfo) -> KernelSource:
    """One kernel that does what these would in their order."""
    members = min(device.compute_units, max(map(work_items, sources)))
    # Functions that are inlined would share the registers of one kernel.
    head = function_head(device.outlined_vector_bits)
    program = JoinedKernels(head, [(PROGRESS, torch.int32)])
    for definition in _definitions(members):
        program.write(definition)
    lines = ["const int own = item0;", "int piece, done;"]
    total = 0
    for part, source in enumerate(sources):
        function, arguments = program.add(source)
        pieces = work_items(source)
        if part:
            lines += ["", f"team_await(progress, {total});"]
        lines += [
            "done = 0;",
            f"while ((piece = team_take(progress, own, {part}, {pieces})) >= 0) {{",
            f"    {function}({', '.join([*items(source), *arguments])});",
            "    ++done;",
            "}",
            "team_done(progress, done);",
        ]
        total += pieces
    return program.kernel("team", [*lines, "team_leave(progress);"], members)


def items(source: KernelSource) -> Iterator[str]:
    """The numbers of the work-item that is ``piece`` of a launch."""
    below = 1
    for n, size in enumerate(map(int, source.global_size)):
        own = "piece" if below == 1 else f"piece / {below}"
        yield own if n == len(source.global_size) - 1 else f"{own} % {size}"
        below *= size


def _definitions(members: int) -> tuple[Definition, ...]:
    """What members of a team call."""
    take = f"""\
/* A piece of so many of a part: of the member's own share, then of others'; -1: none is left. */
static int team_take(volatile __global int *progress, int own, int part, int pieces)
{{
    for (int k = 0; k < {members}; ++k) {{
        const int member = (own + k) % {members};
        const int first = (long)pieces * member / {members};
        const int share = (long)pieces * (member + 1) / {members} - first;
        volatile __global int *taken = progress + {_TAKEN} + {MAX_PARTS} * member + part;
        if (*taken < share) {{
            const int n = atomic_inc(taken);
            if (n < share)
                return first + n;
        }}
    }}
    return -1;
}}
"""
    done = f"""\
/* So many pieces more are done: what they wrote is there for who sees that. */
static void team_done(volatile __global int *progress, int pieces)
{{
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    if (pieces)
        atomic_add(progress + {_DONE}, pieces);
}}
"""
    wait = f"""\
/* Waits until so many pieces are done in all. */
static void team_await(volatile __global int *progress, int pieces)
{{
    while (progress[{_DONE}] < pieces)
        ;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
}}
"""
    leave = f"""\
/* The last member to leave makes everything ready for the next launch. */
static void team_leave(volatile __global int *progress)
{{
    if (atomic_inc(progress + {_LEFT}) == {members - 1})
        for (int n = 0; n < {progress_words(members)}; ++n)
            progress[n] = 0;
}}
"""
    texts = {"team_take": take, "team_done": done, "team_await": wait, "team_leave": leave}
    return tuple(Definition(name, text, True) for name, text in texts.items())
