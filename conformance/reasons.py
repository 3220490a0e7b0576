"""Why rows are not native: the compiler's own reasons, and kinds of operators by pattern."""

from __future__ import annotations

import re

from conformance.rows import EAGER_FAILS, FAIL, FALLBACK, Result

#: What the compiler says of an operator that nobody has written a lowering for.
UNKNOWN = "no lowering for this operator"

#: Kinds of operators without a lowering; the first pattern that matches a whole name counts.
KINDS: tuple[tuple[str, str], ...] = (
    (
        r"aten\.(_?linalg_.*|_?cholesky.*|geqrf.*|ormqr.*|lu_unpack.*|triangular_solve.*|qr.*)",
        "matrix factorisation: LAPACK on the host is better than anything in OpenCL",
    ),
    (r"aten\.(_fft_.*|_conj.*|view_as_.*|complex.*|polar.*|real.*|imag.*)", "complex numbers"),
    (r"aten\._?to_sparse.*", "sparse tensors"),
    (r"aten\.hash_tensor\..*", "unsigned 64-bit integers"),
    (r"aten\.(sort|topk|kthvalue|.*median|mode)\..*", "needs sorting"),
    (r"aten\.(searchsorted|bucketize)\..*", "binary search"),
    (r"aten\._?histogram.*|aten\.(histc|bincount)\..*", "histogram"),
    (r"aten\.(index_reduce|scatter_reduce|segment_reduce|masked_scatter|put).*", "scatter"),
    (
        r"aten\.(nonzero_static|repeat_interleave|unique.*)\..*",
        "where results lie, or how many there are, depends on data",
    ),
    (r"torch_nn\..*", "operator of PyTorch's own that is implemented in Python"),
)


#: Reasons of what need not be native: no computation on dense real tensors, or nothing that a
#: backend is asked for.
EXEMPT = re.compile(
    r"matrix factorisation.*|complex numbers|outside the graph.*|.*sparse.*"
    r"|.*\bcomplex(32|64|128)\b.*"
)


#: Said of what reads a result of such an operator.
_FOLLOWS = "an argument only lives on the host"


def is_exempt(result: Result) -> bool:
    """Whether everything that a row leaves to the host is allowed to be there."""
    said = {_reason(name, reason) for name, reason in result.fallbacks.items()} - {_FOLLOWS}
    return result.status == FALLBACK and bool(said) and all(map(EXEMPT.fullmatch, said))


def reason_of(result: Result) -> str:
    """The reasons of all that a row leaves to the host, or what went wrong."""
    if result.status in (EAGER_FAILS, FAIL):
        return result.detail
    reasons = {_reason(name, said): None for name, said in result.fallbacks.items()}
    return "; ".join(reasons)


def _reason(name: str, said: str) -> str:
    if name.startswith("graph break"):
        return f"outside the graph: {said}" if said else "outside the graph"
    if said and said != UNKNOWN:
        return said
    return next((kind for pattern, kind in KINDS if re.fullmatch(pattern, name)), UNKNOWN)
