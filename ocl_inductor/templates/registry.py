"""All kernel templates by name."""

from __future__ import annotations

from ocl_inductor.templates.attention import ATTENTION
from ocl_inductor.templates.attention_backward import ATTENTION_BACKWARD
from ocl_inductor.templates.bags import BAGS
from ocl_inductor.templates.bf16_conv import BF16_CONV
from ocl_inductor.templates.bf16_gemm import BF16_GEMM
from ocl_inductor.templates.bf16_rows import BF16_ROWS
from ocl_inductor.templates.conv import CONV
from ocl_inductor.templates.ctc import CTC_GRADIENT, CTC_STATES
from ocl_inductor.templates.depthwise import DEPTHWISE
from ocl_inductor.templates.few_queries import FEW_QUERIES
from ocl_inductor.templates.few_rows import FEW_ROWS
from ocl_inductor.templates.gemm import GEMM
from ocl_inductor.templates.grouped import GROUPED
from ocl_inductor.templates.grouped_terms import GROUPED_TERMS
from ocl_inductor.templates.matrix_attention import MATRIX_ATTENTION
from ocl_inductor.templates.matrix_conv import MATRIX_CONV, MATRIX_CONV_PARTS
from ocl_inductor.templates.matrix_gemm import MATRIX_GEMM
from ocl_inductor.templates.mma_conv import MMA_CONV
from ocl_inductor.templates.mma_gemm import MMA_GEMM
from ocl_inductor.templates.mma_weight_gradient import MMA_WEIGHT_GRADIENT
from ocl_inductor.templates.ordering import MERGE_RUNS, SELECT, SORT_RUNS
from ocl_inductor.templates.spec import TemplateSpec
from ocl_inductor.templates.weight_gradient import WEIGHT_GRADIENT
from ocl_inductor.templates.window_product import WINDOW_PRODUCT
from ocl_inductor.templates.winograd import WINOGRAD
from ocl_inductor.templates.winograd_points import WINOGRAD_INPUTS, WINOGRAD_OUTPUTS
from ocl_inductor.templates.winograd_products import WINOGRAD_PRODUCTS
from ocl_inductor.templates.winograd_weight_gradient import (
    WINOGRAD_GRADIENTS,
    WINOGRAD_WEIGHT_GRADIENT,
)

_ALL = (
    GEMM, FEW_ROWS, ATTENTION, ATTENTION_BACKWARD, FEW_QUERIES, CONV, DEPTHWISE, WEIGHT_GRADIENT,
    WINOGRAD, WINOGRAD_INPUTS, WINOGRAD_OUTPUTS, WINOGRAD_PRODUCTS, WINOGRAD_GRADIENTS,
    WINOGRAD_WEIGHT_GRADIENT, MATRIX_GEMM, MATRIX_ATTENTION, MATRIX_CONV, MATRIX_CONV_PARTS, BAGS,
    BF16_GEMM, BF16_CONV, BF16_ROWS, MMA_GEMM, MMA_CONV,
    MMA_WEIGHT_GRADIENT, SORT_RUNS, MERGE_RUNS, SELECT, CTC_STATES, CTC_GRADIENT,
    GROUPED, GROUPED_TERMS, WINDOW_PRODUCT,
)  # fmt: skip

SPECS: dict[str, TemplateSpec] = {spec.name: spec for spec in _ALL}
