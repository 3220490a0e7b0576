"""Operators with results that may be compared by dtype and shape only."""

from __future__ import annotations

#: May draw from a random generator. Their numbers are compared only for those samples for which
#: eager gives the same ones under two seeds (attention without dropout, say).
RANDOM = frozenset(
    {
        "bernoulli",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "nn.functional.alpha_dropout",
        "nn.functional.dropout",
        "nn.functional.dropout2d",
        "nn.functional.dropout3d",
        "nn.functional.feature_alpha_dropout.with_train",
        "nn.functional.fractional_max_pool2d",
        "nn.functional.fractional_max_pool3d",
        "nn.functional.multi_head_attention_forward",
        "nn.functional.rrelu",
        "nn.functional.scaled_dot_product_attention",
        "normal",
        "normal.in_place",
        "normal.number_mean",
        "pca_lowrank",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "svd_lowrank",
        "uniform",
    }
)

#: Memory that nobody has written: any numbers are right.
UNINITIALISED = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
