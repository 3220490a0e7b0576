"""``torch.autocast("ocl")``: in which type each operator computes.

PyTorch asks a device for its rules. These are the ones that it has for CUDA, as its documentation
lists them (*Autocast Op Reference*): products in the type that was asked for, what loses too much
in half types in float32, and operators with several operands in the widest type among these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

import torch

from ocl_inductor.resident.places import NAME, is_resident
from ocl_inductor.support.torch_versions import aten_overload, untraced

_KEY = "AutocastPrivateUse1"
_HALF = (torch.float16, torch.bfloat16)

#: In the type of the context: products of all kinds.
IN_HALF = (
    "_convolution", "_convolution.deprecated", "convolution",
    "conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d", "conv3d.padding", "conv_tbc",
    "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "einsum",
    "linalg_multi_dot", "linalg_vecdot", "linear", "matmul", "mm", "mv", "prelu",
    "scaled_dot_product_attention",
    "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell", "gru_cell", "lstm_cell", "rnn_relu_cell",
    "rnn_tanh_cell",
)  # fmt: skip
#: In float32.
IN_FLOAT = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal",
    "rsqrt", "sinh", "softplus", "tan",
    "pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor",
    "group_norm", "layer_norm", "native_layer_norm", "renorm",
    "cdist", "cosine_similarity", "dist", "norm.Scalar", "norm.ScalarOpt_dim", "nuclear_norm",
    "nuclear_norm.dim", "pdist", "linalg_vector_norm", "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord", "logsumexp", "trace",
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy_loss",
    "ctc_loss.IntList", "ctc_loss.Tensor", "hinge_embedding_loss", "huber_loss", "kl_div",
    "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "nll_loss", "nll_loss2d", "nll_loss_nd", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss",
)  # fmt: skip
#: In float32 where the call names no type.
IN_FLOAT_BY_DEFAULT = (
    "cumprod", "cumsum", "log_softmax.int", "prod", "prod.dim_int", "softmax.int", "sum",
    "sum.dim_IntList",
)  # fmt: skip
#: In the widest type of their operands.
IN_THE_WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cat", "cross", "dot", "grid_sampler", "index_put",
    "scatter_add", "stack", "tensordot", "vdot",
)  # fmt: skip

_UNSAFE = (
    "binary_cross_entropy is unsafe to autocast: a half type rounds probabilities to 0 and 1, "
    "where the loss is infinite. Use torch.nn.functional.binary_cross_entropy_with_logits or "
    "torch.nn.BCEWithLogitsLoss, which are safe, or leave autocast for this call."
)


def register_autocast() -> list[torch.library.Library]:
    """Give PyTorch the rules. Registrations end with the objects that are returned."""
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, _KEY)
    aten = torch.library.Library("aten", "IMPL")
    kinds = (
        (IN_HALF, _in_half),
        (IN_FLOAT, _in_float),
        (IN_FLOAT_BY_DEFAULT, _in_float_by_default),
        (IN_THE_WIDEST, _in_the_widest),
        (("binary_cross_entropy",), _refused),
    )
    for names, kernel_of in kinds:
        for name in names:
            operator = aten_overload(name)
            if operator is not None:
                aten.impl(name, untraced(kernel_of(operator)), _KEY)
    return [rest, aten]


def _in_half(operator: torch._ops.OpOverload) -> Callable[..., object]:
    def kernel(*args: object, **kwargs: object) -> object:
        return _call(operator, args, kwargs, torch.get_autocast_dtype(NAME))

    return kernel


def _in_float(operator: torch._ops.OpOverload) -> Callable[..., object]:
    def kernel(*args: object, **kwargs: object) -> object:
        return _call(operator, args, kwargs, torch.float32)

    return kernel


def _in_float_by_default(operator: torch._ops.OpOverload) -> Callable[..., object]:
    def kernel(*args: object, **kwargs: object) -> object:
        named = kwargs.get("dtype") is not None or any(isinstance(x, torch.dtype) for x in args)
        return _call(operator, args, kwargs, None if named else torch.float32)

    return kernel


def _in_the_widest(operator: torch._ops.OpOverload) -> Callable[..., object]:
    def kernel(*args: object, **kwargs: object) -> object:
        half = torch.get_autocast_dtype(NAME)
        found = {x.dtype for x in _tensors((*args, *kwargs.values()))}
        return _call(operator, args, kwargs, half if found <= {half} else torch.float32)

    return kernel


def _refused(operator: torch._ops.OpOverload) -> Callable[..., object]:
    def kernel(*args: object, **kwargs: object) -> object:
        raise RuntimeError(_UNSAFE)

    return kernel


def _call(
    operator: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    dtype: torch.dtype | None,
) -> object:
    """The operator with its half and single operands in ``dtype``, and without these rules."""
    with torch._C._DisableAutocast():
        if dtype is None:
            return operator(*args, **kwargs)
        given = {k: _cast(x, dtype) for k, x in kwargs.items()}
        return operator(*(_cast(x, dtype) for x in args), **given)


def _cast(x: object, dtype: torch.dtype) -> object:
    if isinstance(x, (list, tuple)):
        return type(x)([_cast(y, dtype) for y in x])
    return x.to(dtype) if _takes_part(x) else x


def _tensors(args: Iterable[object]) -> Iterator[torch.Tensor]:
    for x in args:
        if isinstance(x, (list, tuple)):
            yield from _tensors(x)
        elif _takes_part(x):
            yield x


def _takes_part(x: object) -> TypeGuard[torch.Tensor]:
    """Whether the rules are about ``x``: not about float64, integers and tensors elsewhere."""
    return isinstance(x, torch.Tensor) and x.dtype in (*_HALF, torch.float32) and is_resident(x)
