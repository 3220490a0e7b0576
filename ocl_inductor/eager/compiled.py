"""Operators on ``ocl`` tensors as compiled graphs of one node.

Each overload is compiled for the sizes and strides of its call, and for the first number or, where
that changes, for any. Operators without a lowering, that write what they also read as another
tensor, or with many different numbers of another kind (dimensions, counts) run on the host; so does
everything where the memory is the host's, as its kernels exist already.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ocl_inductor.device.device import Device
from ocl_inductor.eager.calls import Call, call_of, why_not, with_numbers_here
from ocl_inductor.eager.changing import name_of, range_of_numbers
from ocl_inductor.eager.lazy.operators import Operator
from ocl_inductor.eager.on_host import on_host_of, two_devices
from ocl_inductor.eager.one_node import (
    Function,
    compiled,
    compiled_for_any,
    places_that_change,
)
from ocl_inductor.eager.out_sizes import Sizes, outs_of, resize_outs, sizes_of_outs
from ocl_inductor.log import logger
from ocl_inductor.resident import tensors
from ocl_inductor.resident.deferred import UNRECORDED, Deferred, settle
from ocl_inductor.resident.places import (
    NAME,
    index_of,
    index_of_place,
    is_resident,
    place,
    place_device,
    several_places,
)
from ocl_inductor.resident.schemas import ON_CPU, result_of_writing, returns_a_view
from ocl_inductor.runtime.counters import count
from ocl_inductor.support.torch_versions import untraced

_log = logger(__name__)

#: Most forms of an operator (sizes, strides, types), and most numbers of a form, that are compiled;
#: further ones run on the host.
_MOST_FORMS, _MOST_NUMBERS = 256, 8
#: Calls whose results' sizes are kept.
_MOST_SIZES = 4096

#: Takes the tensors of a call and its numbers; None: the host has to run it.
Entry = Callable[[Sequence[torch.Tensor], tuple[Hashable, ...]], object]


class _Changing:
    """A graph whose numbers are tensors of no dimensions, which are written before each call."""

    def __init__(
        self,
        op: torch._ops.OpOverload,
        function: Function,
        dtype: torch.dtype,
        places: Sequence[int],
        call: Call,
    ) -> None:
        given, where = call.tensors, call.where
        self._function, self._places = function, places
        self._slots = [tensors.Number(dtype, where.index) for _ in places]
        self._least, self._most = range_of_numbers(name_of(op), given, dtype)
        self._tensors = tuple(slot.tensor for slot in self._slots)
        self._lock = threading.RLock()
        self._busy = False

    def __call__(self, given: Sequence[torch.Tensor], numbers: tuple[Hashable, ...]) -> object:
        values = [_value(numbers[place]) for place in self._places]
        for x in values:
            if (x < self._least or x > self._most) and x - x == 0:  # infinities may be
                return None
        with self._lock:  # until the kernel that reads them is enqueued
            if self._busy:  # a destructor calls the operator within its own call
                return None
            self._busy = True
            try:
                for slot, x in zip(self._slots, values, strict=True):
                    slot.write(x)
                return self._function(*given, *self._tensors)
            finally:
                self._busy = False


class _Form:
    """The compiled functions of one form of an operator."""

    __slots__ = ("any", "by_numbers", "places")

    def __init__(self, places: Sequence[int]) -> None:
        #: By all of its numbers; None: the host runs it.
        self.by_numbers: dict[tuple[Hashable, ...], Function | None] = {}
        #: By those that do not change.
        self.any: dict[tuple[Hashable, ...], _Changing | None] = {}
        self.places = places

    def rest(self, numbers: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """The numbers that do not change."""
        return tuple(x for n, x in enumerate(numbers) if n not in self.places)


class _Here(threading.local):
    compiling = False


class _GraphFunctions:
    """The compiled functions of one device, by operator, form and numbers."""

    def __init__(self, where: torch.device) -> None:
        self.where = where
        self.forms: dict[Hashable, _Form] = {}
        self._lock = threading.RLock()
        self._counts: Counter[Any] = Counter()
        self._outs: dict[Hashable, Sizes] = {}

    def run(
        self,
        op: torch._ops.OpOverload,
        args: Sequence[object],
        kwargs: dict[str, object],
        call: Call,
    ) -> Any:
        """The results; None where the host has to run it."""
        try:
            form = self.forms.get(call.form)
        except TypeError:  # an argument that is not hashable
            return None
        if form is not None:
            function = form.by_numbers.get(call.numbers)
            if function is not None:
                return function(*call.tensors)
            if form.any:
                changing = form.any.get(form.rest(call.numbers))
                if changing is not None:
                    return changing(call.tensors, call.numbers)
        with self._lock:
            made = self._new(op, args, kwargs, call)
        if made is None:
            return None
        if isinstance(made, _Changing):
            return made(call.tensors, call.numbers)
        return made(*call.tensors)

    def resized(
        self,
        op: torch._ops.OpOverload,
        args: Sequence[object],
        kwargs: dict[str, Any],
        call: Call,
    ) -> bool:
        """Give tensors for results that have no elements their size; whether any had another."""
        if all(kwargs[name].numel() for name in outs_of(op) if name in kwargs):
            return False
        key = call.form, call.numbers
        try:
            sizes = self._outs.get(key)
        except TypeError:  # an argument that is not hashable
            return False
        if sizes is None:
            try:
                sizes = self._compiling(partial(sizes_of_outs, op, args, kwargs))
            except Exception:  # the host knows them, or raises
                sizes = {}
            if len(self._outs) >= _MOST_SIZES:
                self._outs.clear()
            self._outs[key] = sizes
        sizes = {name: x for name, x in sizes.items() if not kwargs[name].numel()}
        resize_outs(kwargs, sizes)
        return bool(sizes)

    def _new(
        self,
        op: torch._ops.OpOverload,
        args: Sequence[object],
        kwargs: dict[str, object],
        call: Call,
    ) -> Any:
        """A function, a ``_Changing``, or None."""
        form = self.forms.get(call.form)
        if form is None:
            if self._counts[op] >= _MOST_FORMS:
                return None
            self._counts[op] += 1
            form = self.forms[call.form] = _Form(places_that_change(op, args, kwargs))
        if call.numbers in form.by_numbers:
            return form.by_numbers[call.numbers]
        rest = form.rest(call.numbers)
        if rest in form.any and form.any[rest] is not None:
            return form.any[rest]
        if form.places and rest not in form.any and self._seen(form, rest):
            found = self._compiling(partial(compiled_for_any, op, args, kwargs, call, form.places))
            form.any[rest] = None
            if found is not None:
                function, dtype = found
                changing = _Changing(op, function, dtype, form.places, call)
                form.any[rest] = changing
                return changing
        if len(form.by_numbers) >= _MOST_NUMBERS:
            return None
        made = self._compiling(partial(compiled, op, args, kwargs, call))
        form.by_numbers[call.numbers] = made
        return made

    def _seen(self, form: _Form, rest: tuple[Hashable, ...]) -> bool:
        """Whether the form was compiled for other numbers."""
        return any(f is not None and form.rest(n) == rest for n, f in form.by_numbers.items())

    def _compiling(self, compile_it: Callable[[], object]) -> Any:
        _here.compiling = True
        try:
            return compile_it()
        finally:
            _here.compiling = False


#: Whether the thread is compiling, whose own operators are not compiled in turn.
_here = _Here()


@functools.cache
def _functions_of(device: Device) -> _GraphFunctions:
    return _GraphFunctions(place_device(index_of_place(device)))


#: A graph for each length would soon be one too many, and the host has other numbers for a seed: a
#: seed has to give the same ones, whatever was computed before.
_ON_HOST = frozenset((torch.ops.aten.randperm,))


@functools.cache
def kernel_of(op: torch._ops.OpOverload) -> Callable[..., object]:
    """A function that calls an operator on ``ocl`` tensors.

    It raises the errors of the CPU's kernel, and DeviceMemoryError.
    """
    if returns_a_view(op):

        def view(*args: object, **kwargs: object) -> Any:
            settle(args)
            return op.redispatch(ON_CPU, *args, **kwargs)

        return untraced(view)
    writes, results = op._schema.is_mutable, len(op._schema.returns)
    uncounted, counter = on_host_of(op), f"eager on host: {op}"

    def on_host(args: tuple[object, ...], kwargs: dict[str, object], device: Device) -> object:
        count(counter)
        return uncounted(args, kwargs, device)

    if op.overloadpacket in _ON_HOST:
        return untraced(
            lambda *args, **kwargs: on_host(args, kwargs, device_of_call(op, args, kwargs))
        )
    outs = outs_of(op)
    in_place, here = tensors.in_place, _here
    deferred, operator = Deferred, Operator(op)

    def call(*args: object, **kwargs: object) -> Any:
        recorder = deferred.recorder
        if recorder is not None and not here.compiling:
            recorded = recorder.add(operator, args, kwargs)
            if recorded is not UNRECORDED:
                return recorded
        device = device_of_call(op, args, kwargs)
        if here.compiling:  # PyTorch tries out what it does not know: no call of the program's
            return uncounted(args, kwargs, device)
        if in_place(device):
            return on_host(args, kwargs, device)
        functions = _functions_of(device)
        where = functions.where
        own = call_of(op, args, kwargs, where)
        if own is None and (moved := with_numbers_here(op, args, kwargs, where)) is not None:
            args, kwargs = moved
            own = call_of(op, args, kwargs, where)
        if outs and own is not None and functions.resized(op, args, kwargs, own):
            own = call_of(op, args, kwargs, where)
        found = None if own is None else functions.run(op, args, kwargs, own)
        if found is None:
            if own is None and _log.isEnabledFor(logging.INFO):
                _log.info("%s runs on the host: %s", op, why_not(args, kwargs, where))
            return on_host(args, kwargs, device)
        count("eager_compiled")
        if writes:
            return result_of_writing(op, args, kwargs, found)  # type: ignore[arg-type]
        return found[0] if results == 1 else tuple(found)

    return untraced(call)


def device_of_call(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: dict[str, object]
) -> Device:
    """The device whose tensors an operator gets, or else where its result is to be.

    Raises:
        RuntimeError: tensors of several ``ocl`` devices.
    """
    if "device" not in kwargs and not several_places():
        return place()
    leaves = tree_leaves((args, kwargs))
    found = [x.device for x in leaves if is_resident(x)]
    for elsewhere in found:
        if elsewhere != found[0]:
            raise two_devices(op, found[0], elsewhere)
    found += [x for x in leaves if isinstance(x, torch.device) and x.type == NAME]
    return place(index_of(found[0] if found else None))


def run(op: torch._ops.OpOverload, *args: object, **kwargs: object) -> Any:
    """One call of an operator on ``ocl`` tensors; see ``kernel_of``."""
    return kernel_of(op)(*args, **kwargs)


def _value(x: Hashable) -> int | float:
    """A number as it was passed, of what ``Call`` has."""
    return float.fromhex(x) if isinstance(x, str) else x  # type: ignore[return-value]
