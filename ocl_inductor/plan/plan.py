"""The compiled form of a graph: what the runtime replays. Plain picklable data.

Sizes are Python expressions in text over the graph's size symbols; the runtime compiles each
distinct one once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from ocl_inductor.plan.kernel_code import KernelCode
from ocl_inductor.plan.launch_example import LaunchExample
from ocl_inductor.plan.residence import Residence
from ocl_inductor.plan.tensor_form import TensorForm

SCHEMA_VERSION = 9

#: A static size, or a Python expression over size symbols.
SizeText = int | str


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One positional argument: a tensor, a size (``symbol``), or a value only the host uses.

    ``form``: how the caller sees it; sizes, strides and extent are of the real numbers in memory.
    """

    kind: Literal["tensor", "size", "host"]
    name: str
    dtype: torch.dtype | None = None
    size: tuple[SizeText, ...] = ()
    stride: tuple[SizeText, ...] = ()
    extent: SizeText = 0
    static: bool = False
    form: TensorForm = "plain"


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of the scratch memory: ``nbytes`` that are live from ``first`` to ``last``.

    ``first`` and ``last`` count the scheduler's groups; slots that are needed at the same time do
    not overlap. ``arena`` and ``offset`` (bytes) say where a slot lies in a plan with static sizes;
    in a plan with symbolic ones the runtime places slots when it knows the sizes.
    """

    nbytes: SizeText
    first: int
    last: int
    arena: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """Memory the plan provides: ``extent`` elements; ``slot`` is an index into ``Plan.slots``.

    ``where``: ``slot`` (scratch), ``kept`` (lives as long as the plan: computed from parameters),
    ``output`` (a fresh tensor each call). Two buffers have one slot where a kernel writes the
    second over the first.
    """

    name: str
    dtype: torch.dtype
    extent: SizeText
    size: tuple[SizeText, ...]
    stride: tuple[SizeText, ...]
    where: Literal["slot", "kept", "output"]
    slot: int = -1


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's code and how it is compiled. Identical ones are one entry.

    Its origin, for display: ``operators`` as aten names them, ``fx_nodes``, the line of the model
    in ``user_code`` where known. ``example`` is one of its launches.
    """

    code: KernelCode
    options: tuple[str, ...]
    fx_nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    user_code: str = ""
    example: LaunchExample | None = None

    @property
    def name(self) -> str:
        return self.code.name

    @property
    def source(self) -> str:
        """The text of its program, where it is compiled by itself."""
        return self.code.text


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel call over ``global_size`` work-items.

    Arguments: buffers by name, then ``scalars`` (64-bit), then ``literals`` (32-bit). ``flops`` and
    ``bytes``: arithmetic operations and bytes of memory of one call (see codegen/cost.py).
    ``rounds``: of its loops, where the driver ends long ones (``DeviceInfo.most_iterations``).
    """

    kernel: int
    buffers: tuple[str, ...]
    scalars: tuple[SizeText, ...]
    literals: tuple[int, ...]
    global_size: tuple[SizeText, ...]
    local_size: tuple[int, ...] | None
    flops: SizeText = 0
    bytes: SizeText = 0
    rounds: SizeText = 0


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A strided view of a buffer as an argument of a host call; ``pairs``: of complex numbers."""

    name: str
    size: tuple[SizeText, ...] | None = None
    stride: tuple[SizeText, ...] | None = None
    offset: SizeText = 0
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class SizeRef:
    """A size as an argument of a host call; ``real``: a number made of sizes, no integer."""

    value: SizeText
    real: bool = False


RegionKind = Literal["cond", "while_loop", "while_loop_stack_output", "scan", "map_impl"]


@dataclass(frozen=True, slots=True)
class Region:
    """Control flow as the operator of a host call: plans, and how they are run (``Control``)."""

    how: RegionKind
    bodies: tuple[Plan, ...]

    def __str__(self) -> str:
        return self.how


@dataclass(frozen=True, slots=True)
class HostCall:
    """An ATen operator between kernels; leaves of ``args`` may be TensorRef or SizeRef.

    ``defines``: sizes that are known after the call, as (symbol, name of a host result, dimension
    of it or None where it is the size itself).

    ``early``: it is asynchronous, as collectives are, and may read its arguments after it returns:
    later steps must not write their memory.

    ``fallback``: it replaces a missing lowering (``reason`` says which, and where the model calls
    it); else it belongs on the host.
    """

    operator: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    results: Any
    label: str
    fallback: bool = True
    reason: str = ""
    defines: tuple[tuple[str, str, int | None], ...] = ()
    early: bool = False

    @property
    def bodies(self) -> tuple[Plan, ...]:
        """The plans it runs: none, unless it is control flow."""
        return self.operator.bodies if isinstance(self.operator, Region) else ()


Step = Launch | HostCall

#: Argument of kernels that check indices: four 32-bit words, all 0 as long as there is no fault.
#: The number of the check, 0, and both halves of the index, the lower one first.
FAULT = "fault"
FAULT_WORDS = 4
#: Stands for an index that 32 bits do not hold, where a kernel keeps no more of it.
UNKNOWN_INDEX = -(1 << 63)
#: The complete message of eager for an integer divided by 0.
DIVIDED_BY_ZERO = "ZeroDivisionError"


#: Argument of kernels whose work-items share work (codegen/launches/team_kernel.py): 32-bit words
#: that are 0 before and after each launch.
PROGRESS = "progress"


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A returned tensor (view of an output buffer), host value, size (or real number made of sizes)
    or constant. ``form``: how the caller sees it; sizes, strides and offset are of real numbers.
    """

    kind: Literal["tensor", "host", "size", "real", "constant"]
    name: str = ""
    size: tuple[SizeText, ...] = ()
    stride: tuple[SizeText, ...] = ()
    offset: SizeText = 0
    value: Any = None
    form: TensorForm = "plain"


@dataclass(frozen=True, slots=True)
class IndexCheckSpec:
    """How an out-of-range index is reported (ir/nodes.py)."""

    operator: str
    dim: int | None
    extent: SizeText
    source: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a call needs.

    ``symbols``: size symbols that a size argument, the shape of a tensor or a host call defines.
    ``prologue`` computes the ``kept`` buffers from static inputs and constants; it runs at the
    first call and again when one of ``watched`` (names of static inputs) was replaced or written.
    ``slots``: parts of scratch memory; ``arenas``: bytes of the allocations they lie in (usually
    one; empty where sizes are symbolic). ``in_place``: pairs of a buffer and the one it overwrites.

    ``aliases``: pairs of a buffer and the one in whose memory it is, which may be an input that the
    plan writes. ``updates``: an input, and what the runtime copies into it at the end.

    ``visible_outputs``: of a forward graph, how many of the first outputs the caller sees; the
    others are saved for its backward graph. None: all. ``backward``: what a backward graph became.

    ``parts``, for people: of each of ``steps``, which of the scheduler's kernels and host calls it
    runs; several where small kernels of one form are launched together.

    ``statistics``, bytes of scratch memory for the example's sizes: ``peak_bytes`` planned,
    ``lower_bound_bytes`` (the largest set of buffers alive together), ``unplanned_bytes`` (every
    buffer for itself); ``kept_bytes``: what is computed from parameters.

    ``single_core``: one core runs the steps faster than a dispatch to all cores.

    ``checks``: what kernels may find, each by its number from 1 in the buffer ``fault``, which no
    ``BufferSpec`` describes; empty where no kernel checks an index.

    ``progress_words``: size of the buffer ``progress``, which no ``BufferSpec`` describes; 0: no
    kernel takes it.

    ``residence``: of a plan whose tensors live on the device (``ocl``); None: they are the CPU's.
    """

    symbols: tuple[str, ...]
    inputs: tuple[InputSpec, ...]
    constants: tuple[tuple[str, torch.Tensor], ...]
    buffers: tuple[BufferSpec, ...]
    slots: tuple[Slot, ...]
    arenas: tuple[int, ...]
    kernels: tuple[Kernel, ...]
    prologue: tuple[Step, ...]
    steps: tuple[Step, ...]
    outputs: tuple[OutputSpec, ...]
    watched: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    updates: tuple[tuple[str, OutputSpec], ...] = ()
    visible_outputs: int | None = None
    backward: bool = False
    parts: tuple[tuple[int, ...], ...] = ()
    in_place: tuple[tuple[str, str], ...] = ()
    statistics: dict[str, int] = field(default_factory=dict)
    single_core: bool = False
    checks: tuple[IndexCheckSpec, ...] = ()
    progress_words: int = 0
    residence: Residence | None = None
