"""All kernel templates by name."""

from __future__ import annotations

from typing import Any

from ocl_inductor.templates.attention.attention import ATTENTION
from ocl_inductor.templates.attention.attention_backward import ATTENTION_BACKWARD
from ocl_inductor.templates.attention.decode_attention import FEW_QUERIES
from ocl_inductor.templates.attention.matrix_attention import MATRIX_ATTENTION
from ocl_inductor.templates.attention.mma_attention import MMA_ATTENTION
from ocl_inductor.templates.attention.narrow_attention import NARROW_ATTENTION
from ocl_inductor.templates.conv.conv import CONV
from ocl_inductor.templates.conv.depthwise import DEPTHWISE
from ocl_inductor.templates.conv.dot_conv import DOT_CONV
from ocl_inductor.templates.conv.matrix_conv import MATRIX_CONV, MATRIX_CONV_PARTS
from ocl_inductor.templates.conv.mma_conv import MMA_CONV
from ocl_inductor.templates.conv.mma_weight_gradient import MMA_WEIGHT_GRADIENT
from ocl_inductor.templates.conv.narrow_conv import NARROW_CONV
from ocl_inductor.templates.conv.weight_gradient import WEIGHT_GRADIENT
from ocl_inductor.templates.conv.window_product import WINDOW_PRODUCT
from ocl_inductor.templates.ctc.ctc import CTC_GRADIENT, CTC_STATES
from ocl_inductor.templates.embedding.bags import BAGS
from ocl_inductor.templates.fourier.fourier import FOURIER
from ocl_inductor.templates.gemm.bf16_skinny_gemm import BF16_ROWS
from ocl_inductor.templates.gemm.dot_gemm import DOT_GEMM
from ocl_inductor.templates.gemm.gemm import GEMM
from ocl_inductor.templates.gemm.grouped_gemm import GROUPED
from ocl_inductor.templates.gemm.grouped_terms import GROUPED_TERMS
from ocl_inductor.templates.gemm.matrix_gemm import MATRIX_GEMM
from ocl_inductor.templates.gemm.mma_gemm import MMA_GEMM
from ocl_inductor.templates.gemm.narrow_gemm import NARROW_GEMM
from ocl_inductor.templates.gemm.skinny_gemm import FEW_ROWS
from ocl_inductor.templates.linalg.factorisations import CHOLESKY, LU, QR
from ocl_inductor.templates.linalg.substitution import ROW_ORDER, SUBSTITUTION
from ocl_inductor.templates.recurrent.recurrence import RECURRENCE, RECURRENCE_GRADIENT
from ocl_inductor.templates.sort.ordering import MERGE_RUNS, SELECT, SORT_RUNS
from ocl_inductor.templates.spec import TemplateSpec
from ocl_inductor.templates.winograd.winograd import WINOGRAD
from ocl_inductor.templates.winograd.winograd_points import WINOGRAD_INPUTS, WINOGRAD_OUTPUTS
from ocl_inductor.templates.winograd.winograd_products import WINOGRAD_PRODUCTS
from ocl_inductor.templates.winograd.winograd_weight_gradient import (
    WINOGRAD_GRADIENTS,
    WINOGRAD_WEIGHT_GRADIENT,
)

_ALL = (
    GEMM, FEW_ROWS, ATTENTION, ATTENTION_BACKWARD, FEW_QUERIES, CONV, DEPTHWISE, WEIGHT_GRADIENT,
    WINOGRAD, WINOGRAD_INPUTS, WINOGRAD_OUTPUTS, WINOGRAD_PRODUCTS, WINOGRAD_GRADIENTS,
    WINOGRAD_WEIGHT_GRADIENT, MATRIX_GEMM, MATRIX_ATTENTION, MATRIX_CONV, MATRIX_CONV_PARTS, BAGS,
    NARROW_GEMM, NARROW_CONV, NARROW_ATTENTION, DOT_GEMM, DOT_CONV, BF16_ROWS,
    MMA_GEMM, MMA_CONV, MMA_ATTENTION, MMA_WEIGHT_GRADIENT,
    SORT_RUNS, MERGE_RUNS, SELECT, CTC_STATES, CTC_GRADIENT,
    GROUPED, GROUPED_TERMS, WINDOW_PRODUCT, RECURRENCE, RECURRENCE_GRADIENT,
    LU, CHOLESKY, QR, SUBSTITUTION, ROW_ORDER, FOURIER,
)  # fmt: skip

SPECS: dict[str, TemplateSpec[Any]] = {spec.name: spec for spec in _ALL}
