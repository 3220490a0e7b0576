"""Check one row: compile each of its samples, run it, and compare."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves, tree_map

from conformance.compare import problem
from conformance.fallbacks import FallbackLog
from conformance.random_operators import RANDOM, UNINITIALISED
from conformance.rows import BACKWARD, EAGER_FAILS, FAIL, FALLBACK, NATIVE, RANK, Result, Row
from tests.device.agreement import poisoned_memory

#: Distinct messages of failing samples that a result keeps.
MESSAGES = 3
#: Under so many seeds a random operator's numbers must agree in eager for ours to be compared: a
#: single toss of a coin often gives the same twice.
SEEDS = 12


@dataclass(frozen=True, slots=True)
class Limits:
    """At most ``samples`` of a row, and no further one after ``seconds`` of the CPU's time."""

    samples: int | None = None
    seconds: float = 30.0


class _EagerFails(Exception):
    """Eager itself raises for this sample."""


def check_row(row: Row, op: Any, device: str | None, limits: Limits, log: FallbackLog) -> Result:
    """Never raises for what an operator does; a crash of the process is the caller's matter."""
    start = time.process_time()
    # Not hash(): it differs from process to process.
    seed = zlib.crc32(f"{row.op} {row.dtype} {row.direction}".encode())
    torch.manual_seed(seed)
    try:
        samples = list(
            op.sample_inputs(
                "cpu", getattr(torch, row.dtype), requires_grad=row.direction == BACKWARD
            )
        )
    except Exception as e:
        return Result(row, EAGER_FAILS, detail=f"no samples: {_line(e)}")
    status, count = EAGER_FAILS, 0
    fallbacks: dict[str, str] = {}
    details: list[str] = []
    for k in spread(len(samples), limits.samples):
        if count and time.process_time() - start > limits.seconds:
            break
        try:
            wrong, found = _check_sample(row, op, samples[k], device, seed + k, log)
        except _EagerFails as e:
            details = details or [str(e)]
            continue
        count += 1
        fallbacks |= found
        now = FAIL if wrong else FALLBACK if found else NATIVE
        if status == EAGER_FAILS:
            status, details = now, []
        elif RANK[now] > RANK[status]:
            status = now
        if wrong and len(details) < MESSAGES:
            details.append(f"sample {k}: {wrong}")
    detail = "; ".join(details)
    seconds = round(time.process_time() - start, 2)
    return Result(row, status, dict(sorted(fallbacks.items())), detail, count, seconds)


def spread(total: int, wanted: int | None) -> Sequence[int]:
    """``wanted`` positions out of ``total``, as far apart as they can be."""
    if wanted is None or total <= wanted:
        return range(total)
    return sorted({k * (total - 1) // max(1, wanted - 1) for k in range(wanted)})


def _check_sample(
    row: Row, op: Any, sample: Any, device: str | None, seed: int, log: FallbackLog
) -> tuple[str | None, dict[str, str]]:
    inputs = (sample.input, *sample.args), dict(sample.kwargs)
    run = _backward if row.direction == BACKWARD else _forward
    function = op.get_op()

    def called(args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def results(f: Any, arguments: Any, seed: int = seed) -> Any:
        torch.manual_seed(seed)
        return run(f, arguments, sample, seed)

    try:
        eager = results(called, copied(inputs))
    except Exception as e:
        raise _EagerFails(_line(e)) from e
    values = row.op not in UNINITIALISED
    if values and row.op in RANDOM:
        others = (results(called, copied(inputs), seed + k) for k in range(1, SEEDS))
        values = all(problem(other, eager, None) is None for other in others)
    exact = _exact(results, called, inputs) if values else None
    torch._dynamo.reset()
    counters.clear()
    log.reasons.clear()
    ours = torch.compile(called, backend="opencl", dynamic=False, options=_options(device))
    try:
        with poisoned_memory():
            actual = results(ours, copied(inputs))
    except Exception as e:
        return _raised(e), log.found()
    return problem(actual, eager, exact, values=values), log.found()


def _options(device: str | None) -> dict[str, Any]:
    return {"verify": True} | ({"device": device} if device else {})


def _forward(f: Any, inputs: Any, sample: Any, seed: int) -> Any:
    """The results, and the inputs, which an operator may write."""
    result = f(*inputs)
    return sample.output_process_fn_grad(result), _tensors(inputs)


def _backward(f: Any, inputs: Any, sample: Any, seed: int) -> Any:
    """The results, and the gradients of a random weighted sum of them."""
    result = sample.output_process_fn_grad(f(*inputs))
    outs = [t for t in _tensors(result) if t.requires_grad]
    leaves = [t for t in _tensors(inputs) if t.requires_grad]
    generator = torch.Generator().manual_seed(seed)
    weights = [
        torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype) for t in outs
    ]
    grads = torch.autograd.grad(outs, leaves, weights, allow_unused=True)
    return tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, result), grads


def _exact(results: Any, called: Any, inputs: Any) -> Any:
    """The same in float64, or None where an operator does not go along."""
    wide = {torch.float32: torch.float64, torch.float16: torch.float64}
    wide[torch.bfloat16] = torch.float64

    def widen(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype in wide and x.layout is torch.strided:
            return x.detach().double().requires_grad_(x.requires_grad)
        return wide.get(x, x) if isinstance(x, torch.dtype) else x

    try:
        return results(called, tree_map(widen, copied(inputs)))
    except Exception:
        return None


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


def copied(tree: Any) -> Any:
    """Leaves of their own with the strides, offsets and lazy bits of the originals."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if x.layout is not torch.strided or x.is_quantized or x.is_conj() or x.is_neg():
            return x.detach().clone().requires_grad_(x.requires_grad)
        storage = torch.tensor([], dtype=x.dtype).set_(x.untyped_storage().clone())
        y = storage.as_strided(x.size(), x.stride(), x.storage_offset())
        return y.requires_grad_(x.requires_grad)

    return tree_map(one, tree)


def _raised(e: BaseException) -> str:
    line = _line(e)
    return line if line.startswith(type(e).__name__) else f"{type(e).__name__}: {line}"


def _line(e: BaseException) -> str:
    """The first line of a message that says something, without Dynamo's wrapping."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("backend=")]
    return lines[0][:300] if lines else type(e).__name__
