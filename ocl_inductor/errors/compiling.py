"""Errors of compiling a graph, of its options, and of the values that it is called with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from ocl_inductor.errors.base import OpenCLInductorError


class UnsupportedMinifierError(OpenCLInductorError):
    """PyTorch's minifier was asked for in the form that only Inductor has."""

    def __init__(self) -> None:
        super().__init__(
            "TORCHDYNAMO_REPRO_AFTER=aot is for Inductor only: the scripts it writes call "
            "Inductor's own compiler. Use TORCHDYNAMO_REPRO_AFTER=dynamo, which finds the smallest "
            "graph for this backend."
        )


class UnsupportedLayoutError(OpenCLInductorError):
    """An input in a memory layout of oneDNN's, which PyTorch loses when it traces."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__(
            f"An input of shape {list(shape)} is in oneDNN's own layout (torch._mkldnn), of which "
            "kernels know nothing. Pass x.to_dense(), and keep modules as they are instead of "
            "converting them with torch.utils.mkldnn.to_mkldnn.",
            shape=list(shape),
        )


class UnknownOptionError(OpenCLInductorError):
    """An option, mode or value that does not exist.

    `what` is the kind of thing ("option", "mode", "value of option 'fallback'"), `name` what was
    given, `valid` the names (or a description) of what is accepted.
    """

    def __init__(self, what: str, name: object, valid: Iterable[str]) -> None:
        names = tuple(str(v) for v in valid)
        close = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(
            f"Unknown {what} {_shown(name)} for backend 'opencl'.{hint} Valid: {', '.join(names)}.",
            what=what,
            name=name,
            valid=names,
        )


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 200 else f"{text[:100]}…{text[-20:]} ({len(text):,} characters)"


class RequiredPatchError(OpenCLInductorError):
    """A patch (``ocl_inductor/patches``) is to be off on which correct results rest."""

    def __init__(self, name: str, reason: str, variable: str) -> None:
        super().__init__(
            f"The patch {name!r} cannot be switched off: {reason}. Take it out of {variable}; "
            "docs/patches.md lists those that can be off.",
            name=name,
            reason=reason,
            variable=variable,
        )


class UnsupportedOperatorError(OpenCLInductorError):
    """An operator has no OpenCL lowering and the fallback to ATen is not allowed.

    `dtypes` and `shapes` describe the tensor arguments in order; `source` is the line of the
    user's model, e.g. ``model.py:12 in forward: return x.foo()``.
    """

    def __init__(
        self,
        operator: str,
        dtypes: Sequence[object] = (),
        shapes: Sequence[object] = (),
        source: str = "",
        reason: str = "no lowering",
    ) -> None:
        args = ", ".join(
            f"{dtype}{list(shape) if isinstance(shape, tuple | list) else shape}"
            for dtype, shape in zip(dtypes, shapes, strict=False)
        )
        where = f"\n  at {source}" if source else ""
        super().__init__(
            f"Operator {operator}({args}) cannot be compiled to OpenCL: {reason}.{where}\n"
            'To run it in ATen on the host instead, set options={"fallback": "warn"} '
            "or OCL_INDUCTOR_FALLBACK=warn.",
            operator=operator,
            dtypes=tuple(dtypes),
            shapes=tuple(shapes),
            source=source,
            reason=reason,
        )


class HiddenLayoutError(OpenCLInductorError):
    """``as_strided`` of a part of a tensor that lies otherwise in memory than in eager."""

    def __init__(self, source: str) -> None:
        where = f" at {source}" if source else ""
        super().__init__(
            f"as_strided{where} addresses the memory behind a part of a tensor that the compiled "
            "graph makes, and does not surely stay inside: that tensor lies elsewhere here than in "
            "eager. Call as_strided on the whole tensor, or on a copy (`x.clone()`), or keep the "
            "line out of the graph with torch.compiler.disable.",
            source=source,
        )


class HostResultError(OpenCLInductorError):
    """An operator that ran in ATen on the host returned another tensor than its meta kernel.

    ``promised`` and ``returned`` describe the two.
    """

    def __init__(self, operator: str, promised: str, returned: str) -> None:
        super().__init__(
            f"Operator {operator} was to return {promised}, as its shape function (the kernel for "
            f"fake tensors) says, and returned {returned}. That function is wrong, of an operator "
            "of your own (torch.library) or of PyTorch's: correct it, or keep the operator out of "
            "the graph with torch.compiler.disable.",
            operator=operator,
            promised=promised,
            returned=returned,
        )


class KernelBuildError(OpenCLInductorError):
    """The driver refused a kernel.

    `log` is the driver's build log, `source_path` the file that holds the source.
    """

    def __init__(
        self, kernel: str, log: str, source_path: object = "", nodes: Sequence[str] = ()
    ) -> None:
        path = f"\n  source: {source_path}" if source_path else ""
        fx = f"\n  FX nodes: {', '.join(nodes)}" if nodes else ""
        super().__init__(
            f"The OpenCL driver could not build kernel {kernel!r}.{path}{fx}\n"
            f"  driver log:\n{log.rstrip()}\n"
            "This is a bug of the backend or the driver: please report it with the source; "
            "another driver (OCL_INDUCTOR_DEVICE) may get past it.",
            kernel=kernel,
            log=log,
            source_path=str(source_path),
            nodes=tuple(nodes),
        )


class CompilerFailedError(KernelBuildError):
    """The driver's compiler crashed on a kernel, or was not done in time, in every form of it."""


class IndexOutOfRangeError(OpenCLInductorError, IndexError):
    """An index that is no position of the dimension it is for.

    Eager raises IndexError for some operators and RuntimeError for others, and for some the one or
    the other, as the tensors lie. This is both, so that who expects either gets it.
    ``index`` is None for one that 32 bits do not hold: a kernel may not keep which it was.
    """

    def __init__(
        self, operator: str, index: int | None, dim: int | None, size: int, source: str = ""
    ) -> None:
        place = f"dimension {dim} with size {size}" if dim is not None else f"{size} elements"
        where = f" ({source})" if source else ""
        which = "an index of more than 32 bits" if index is None else f"index {index}"
        super().__init__(
            f"{which} is out of bounds for {place}, in {operator}{where}",
            operator=operator,
            index=index,
            dim=dim,
            size=size,
            source=source,
        )


class IntegerDivisionError(OpenCLInductorError):
    """A division of integers by 0; eager raises a RuntimeError that begins alike."""

    def __init__(self, operator: str, source: str = "") -> None:
        where = f" ({source})" if source else ""
        super().__init__(
            f"ZeroDivisionError: an integer is divided by 0, in {operator}{where}",
            operator=operator,
            source=source,
        )


class RefusedValueError(OpenCLInductorError):
    """A value that eager refuses too, such as a negative probability.

    ``says``: what eager says in its RuntimeError, which is how this one begins.
    """

    def __init__(self, says: str, source: str = "") -> None:
        where = f" ({source})" if source else ""
        super().__init__(f"{says}{where}", says=says, source=source)


class VerifyError(OpenCLInductorError):
    """A stage of the compiler produced a value that breaks its rules. `what` names the rule."""

    def __init__(self, stage: str, what: str) -> None:
        super().__init__(
            f"The output of stage {stage!r} is not valid: {what}. This is a bug of the backend; "
            "run with TORCH_COMPILE_DEBUG=1 and report the folder it leaves.",
            stage=stage,
            what=what,
        )
