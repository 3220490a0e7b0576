"""Compiled results against eager, and against eager in float64, with poisoned memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch._dynamo.utils import counters

from ocl_inductor.device.select import list_devices
from ocl_inductor.runtime.call import executor
from ocl_inductor.runtime.discrete import discrete
from ocl_inductor.runtime.discrete.bundle import Bundle
from ocl_inductor.runtime.memory import strategy as memory
from ocl_inductor.runtime.memory.recycling import Recycler
from ocl_inductor.runtime.memory.saved_memory import SavedPart
from ocl_inductor.runtime.memory.scratch import Arena, ScratchPool

#: Bytes of memory nobody has written: NaN in every float type, -1 in the integers.
POISON = 0xFF

Function = Callable[..., Any]

PROFILES = ("vector", "simt")


def two_drivers(kind: str = "") -> list[str]:
    """Two drivers that differ most, for what is too slow to run on every one.

    ``kind``: only of such devices, for what is about CPUs: blocking by their caches, tensors used
    in place, kernels that call each other.
    """
    wanted = os.environ.get("OCL_INDUCTOR_TEST_DEVICES", "").split(",")
    names = list(dict.fromkeys(d.short_name for d in list_devices() if kind in d.kind))
    names = [n for n in names if any(w.strip() in n for w in wanted)]
    pocl = [n for n in names if "pocl" in n]
    others = [n for n in names if "pocl" not in n]
    return (others[:1] + pocl[:1]) if pocl and others else names[:2]


class _PoisonedTorch:
    """The torch module, whose uninitialised tensors are full of NaN."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def empty(*args: Any, **kwargs: Any) -> torch.Tensor:
        return _poisoned(torch.empty(*args, **kwargs))

    @staticmethod
    def empty_strided(*args: Any, **kwargs: Any) -> torch.Tensor:
        return _poisoned(torch.empty_strided(*args, **kwargs))


def _poisoned(t: torch.Tensor) -> torch.Tensor:
    t.untyped_storage().fill_(POISON)
    return t


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Every tensor and device buffer that the runtime makes starts as NaN."""
    proxy = _PoisonedTorch()
    saved = [(m, m.torch) for m in (executor, memory, discrete)]
    make, make_bundle = discrete.DiscreteMemory._buffer, Bundle.make
    reserve, give, result = Arena.reserve, ScratchPool.give, Recycler.make
    saved_result = SavedPart.make

    def poisoned_buffer(self: Any, name: str, nbytes: int) -> Any:
        before = self.buffers.get(name)
        buffer = make(self, name, nbytes)
        if self.buffers.get(name) is not before:
            pattern = np.full(buffer.size, POISON, np.uint8)
            self.cl.enqueue_copy(self.stream.queue, buffer, pattern)
        return buffer

    def poisoned_bundle(self: Bundle, strategy: Any) -> Any:
        members = make_bundle(self, strategy)
        pattern = np.full(self.nbytes, POISON, np.uint8)
        strategy.cl.enqueue_copy(strategy.stream.queue, self.buffer, pattern)
        return members

    def poison(arena: Arena) -> None:
        """Stale contents of scratch memory must not matter."""
        for allocation in arena.allocations:
            if allocation.host is not None:
                allocation.host.fill_(POISON)

    def poisoned_reserve(self: Arena, needs: Any, strategy: Any) -> None:
        before = self.version
        reserve(self, needs, strategy)
        if self.version == before:
            return
        poison(self)
        for allocation in self.allocations:
            if allocation.buffer is not None:
                pattern = np.full(allocation.nbytes, POISON, np.uint8)
                strategy.cl.enqueue_copy(strategy.stream.queue, allocation.buffer, pattern)

    def poisoned_give(self: ScratchPool, arena: Arena) -> None:
        poison(arena)
        give(self, arena)

    Arena.reserve, ScratchPool.give = poisoned_reserve, poisoned_give  # type: ignore[method-assign]
    Recycler.make = lambda self: _poisoned(result(self))  # type: ignore[method-assign]
    SavedPart.make = lambda self: _poisoned(saved_result(self))  # type: ignore[method-assign]
    for module, _ in saved:
        module.torch = proxy  # type: ignore[attr-defined]
    discrete.DiscreteMemory._buffer = poisoned_buffer  # type: ignore[method-assign]
    Bundle.make = poisoned_bundle  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module, original in saved:
            module.torch = original  # type: ignore[attr-defined]
        discrete.DiscreteMemory._buffer = make  # type: ignore[method-assign]
        Bundle.make = make_bundle  # type: ignore[method-assign]
        Arena.reserve, ScratchPool.give = reserve, give  # type: ignore[method-assign]
        Recycler.make = result  # type: ignore[method-assign]
        SavedPart.make = saved_result  # type: ignore[method-assign]


def compiled(
    fn: Function,
    device: str,
    *,
    dynamic: bool | None = False,
    fullgraph: bool = True,
    **options: Any,
) -> Function:
    """``fn`` compiled for ``device``, whole unless said otherwise."""
    return torch.compile(
        fn,
        backend="opencl",
        dynamic=dynamic,
        fullgraph=fullgraph,
        options={"device": device, **options},
    )


def random(*size: int, dtype: torch.dtype = torch.float32, seed: int | None = None) -> torch.Tensor:
    """Random numbers of a dtype: normal ones, small integers of both signs, or coin tosses."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(size, generator=generator) < 0.5
    if dtype.is_floating_point:
        return torch.randn(size, generator=generator).to(dtype)
    low = 0 if dtype is torch.uint8 else -20
    return torch.randint(low, 21, size, generator=generator).to(dtype)


def tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def assert_same(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None
) -> None:
    """Same structure, dtypes, shapes and strides, and numbers within torch's tolerance."""
    flat, spec = torch.utils._pytree.tree_flatten(actual)
    wanted, wanted_spec = torch.utils._pytree.tree_flatten(expected)
    assert spec == wanted_spec
    for a, e in zip(flat, wanted, strict=True):
        if not isinstance(e, torch.Tensor):
            assert type(a) is type(e) and (a == e or (a != a and e != e))
            continue
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        assert _strides(a) == _strides(e)
        assert (a.is_conj(), a.is_neg()) == (e.is_conj(), e.is_neg())
        a, e = _real(a), _real(e)
        r, t = rtol, atol
        if r is None and e.dtype is torch.float32:
            # Sums in another order differ by some units in the last place of their terms.
            r, t = 1e-5, 1e-5 + 2e-6 * _largest(e)
        elif r is None and e.dtype in (torch.float16, torch.bfloat16):
            # Fused kernels round once where eager rounds after each operator.
            r = 4 * torch.finfo(e.dtype).eps
            t = r * (1 + _largest(e)) / 2
        torch.testing.assert_close(a, e, rtol=r, atol=t, equal_nan=True)


def _real(t: torch.Tensor) -> torch.Tensor:
    """The real numbers of a complex tensor; others as they are."""
    return torch.view_as_real(t.detach().resolve_conj()) if t.is_complex() else t


def _strides(t: torch.Tensor) -> tuple[int, ...]:
    """Strides that matter: of dimensions with more than one element, in tensors with any."""
    if t.numel() == 0:
        return ()
    return tuple(s for n, s in zip(t.shape, t.stride()) if n > 1)


def _largest(t: torch.Tensor) -> float:
    finite = t[t.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def in_float64(tree: Any) -> Any:
    def convert(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
            return x.detach().double()
        if isinstance(x, torch.Tensor) and x.is_complex():
            return x.detach().to(torch.complex128)
        return x

    return torch.utils._pytree.tree_map(convert, tree)


def with_gradients(
    function: Function, exact: Function, inputs: Sequence[torch.Tensor]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Results and gradients of ``function`` for random tensors as ``inputs`` are, real or complex,
    each beside that of ``exact`` in float64."""
    fresh = [torch.randn_like(x).requires_grad_() for x in inputs]
    wide = [
        x.detach().to(torch.complex128 if x.is_complex() else torch.float64).requires_grad_()
        for x in fresh
    ]
    with poisoned_memory():
        result = function(*fresh)
        tangent = torch.randn_like(result)
        ours = torch.autograd.grad(result, fresh, tangent)
    right = exact(*wide)
    best = torch.autograd.grad(right, wide, tangent.to(right.dtype))
    return [
        (mine.detach().to(x.dtype), x.detach())
        for mine, x in zip((result, *ours), (right, *best), strict=True)
    ]


def clone(tree: Any) -> Any:
    """Copies that keep strides, storage offsets and sharing within one tensor."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
            return x
        storage = torch.tensor([], dtype=x.dtype).set_(x.untyped_storage().clone())
        return storage.as_strided(x.size(), x.stride(), x.storage_offset())

    return torch.utils._pytree.tree_map(one, tree)


def agree(
    fn: Function,
    *args: Any,
    device: str,
    rtol: float | None = None,
    atol: float | None = None,
    reference: bool = True,
    compiled_fn: Function | None = None,
    dynamic: bool | None = False,
    fallbacks: int | None = 0,
    **options: Any,
) -> Any:
    """Run ``fn`` compiled and in eager on equal inputs; compare results and written inputs.

    ``reference``: results of float32 must also be about as near to float64 as eager's.
    """
    function = compiled_fn or compiled(fn, device, dynamic=dynamic, **options)
    before = counters["opencl"]["fallbacks"]
    ours, theirs = clone(args), clone(args)
    with poisoned_memory():
        actual = function(*ours)
        again = function(*clone(args))  # bindings of a second call
    expected = fn(*theirs)
    assert_same(actual, expected, rtol, atol)
    assert_same(again, expected, rtol, atol)
    assert_same(ours, theirs, rtol, atol)
    if fallbacks is not None:
        assert counters["opencl"]["fallbacks"] - before == fallbacks
    if reference:
        check_accuracy(actual, expected, fn, args)
    return actual


def check_accuracy(actual: Any, eager: Any, fn: Function, args: Sequence[Any]) -> None:
    """No further from float64 than twice what eager is, give or take some partial sums."""
    mine, its = ([_real(t) for t in tensors(tree)] for tree in (actual, eager))
    if not any(t.dtype is torch.float32 for t in its):
        return
    exact = [_real(t) for t in tensors(fn(*in_float64(clone(tuple(args)))))]
    for a, e, x in zip(mine, its, exact, strict=True):
        if a.dtype is not torch.float32 or x.dtype is not torch.float64 or a.numel() == 0:
            continue
        finite = x.isfinite() & e.isfinite()
        if not finite.any():
            continue
        x, a, e = x[finite], a.double()[finite], e.double()[finite]
        scale = x.abs().max().item()
        allowed = 2 * (e - x).abs().max().item() + 2e-6 * (1 + scale)
        error = (a - x).abs().max().item()
        assert error <= allowed, f"error {error:.3g}, eager {(e - x).abs().max().item():.3g}"


def kernels() -> int:
    return counters["opencl"]["kernels"]
