"""The table of pointwise operators. To add one, write a row.

A row holds the aten overloads, the function from operand expressions to the result's expression,
and the kind of type promotion. Rows of gradients are in ``backward.py``.
"""

from __future__ import annotations

from ocl_inductor.lowering.pointwise import activations as act
from ocl_inductor.lowering.pointwise import formulas as f
from ocl_inductor.lowering.pointwise.division import divide
from ocl_inductor.lowering.pointwise.rows import (
    ALWAYS_BOOL,
    BOOL_TO_LONG,
    INT_TO_FLOAT,
    NO_OPMATH,
    Row,
    register_rows,
    row,
)

ARITHMETIC = [
    row("add.Tensor add.Scalar", f.add),
    row("sub.Tensor sub.Scalar", f.sub),
    row("rsub.Tensor rsub.Scalar", f.rsub),
    row("mul.Tensor mul.Scalar", f.mul),
    row("div.Tensor div.Scalar true_divide.Tensor true_divide.Scalar", f.div, INT_TO_FLOAT),
    row("floor_divide floor_divide.Scalar", divide("floor_div")),
    row(
        "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor",
        divide("remainder"),
        narrow=True,
    ),
    row("fmod.Tensor fmod.Scalar", divide("fmod"), narrow=True),
    row("pow.Tensor_Tensor pow.Tensor_Scalar", f.power),
    row("pow.Scalar", f.power, narrow=True),
    row("neg", f.unary("neg")),
    row("abs", f.unary("abs")),
    row("square", f.square, BOOL_TO_LONG),
    row("reciprocal", f.reciprocal, INT_TO_FLOAT),
    row("addcmul", f.addcmul),
    row("addcdiv", f.addcdiv),
    row("lerp.Scalar lerp.Tensor", f.lerp),
    row("gcd", f.binary("gcd")),
    row("lcm", f.lcm),
    row("copysign.Tensor copysign.Scalar", f.copysign, INT_TO_FLOAT),
    row("hypot", f.binary("hypot")),
    row("sign", f.unary("sign")),
    row("sgn", f.unary("sgn")),
    row("floor", f.rounding("floor")),
    row("ceil", f.rounding("ceil")),
    row("trunc", f.rounding("trunc")),
    row("round", f.rounding("round")),
    row("round.decimals", f.round_decimals),
    row("frac", f.unary("frac")),
]

COMPARISON = [
    row("eq.Tensor eq.Scalar", f.comparison("eq"), ALWAYS_BOOL),
    row("ne.Tensor ne.Scalar", f.comparison("ne"), ALWAYS_BOOL),
    row("lt.Tensor lt.Scalar", f.comparison("lt"), ALWAYS_BOOL),
    row("le.Tensor le.Scalar", f.comparison("le"), ALWAYS_BOOL),
    row("gt.Tensor gt.Scalar", f.comparison("gt"), ALWAYS_BOOL),
    row("ge.Tensor ge.Scalar", f.comparison("ge"), ALWAYS_BOOL),
    row("maximum", f.binary("maximum")),
    row("minimum", f.binary("minimum")),
    row("fmax", f.binary("fmax")),
    row("fmin", f.binary("fmin")),
    row("clamp clamp.Tensor", f.clamp),
    row("clamp_min clamp_min.Tensor", f.clamp_min),
    row("clamp_max clamp_max.Tensor", f.clamp_max),
    row("isnan", f.predicate("isnan"), ALWAYS_BOOL),
    row("isinf", f.predicate("isinf"), ALWAYS_BOOL),
    row("isposinf", f.isposinf, ALWAYS_BOOL),
    row("isneginf", f.isneginf, ALWAYS_BOOL),
    row("signbit", f.signbit, ALWAYS_BOOL),
    row("nan_to_num", f.nan_to_num),
    row("heaviside", f.heaviside, NO_OPMATH),
]

LOGIC = [
    row("logical_and", f.logical_of("logical_and"), ALWAYS_BOOL),
    row("logical_or", f.logical_of("logical_or"), ALWAYS_BOOL),
    row("logical_xor", f.logical_of("logical_xor"), ALWAYS_BOOL),
    row("logical_not", f.logical_not, ALWAYS_BOOL),
    row(
        "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor",
        f.binary("bitwise_and"),
    ),
    row("bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor", f.binary("bitwise_or")),
    row(
        "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor",
        f.binary("bitwise_xor"),
    ),
    row("bitwise_not", f.unary("bitwise_not")),
    row(
        "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar "
        "bitwise_left_shift.Scalar_Tensor __lshift__.Scalar __lshift__.Tensor",
        f.binary("left_shift"),
    ),
    row(
        "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar "
        "bitwise_right_shift.Scalar_Tensor __rshift__.Scalar __rshift__.Tensor",
        f.binary("right_shift"),
    ),
]

#: Functions of floats that are a primitive of the same name.
_SAME_NAME = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc erfinv lgamma digamma i0 sigmoid"
)

FUNCTIONS = [
    *(row(name, f.unary(name), INT_TO_FLOAT) for name in _SAME_NAME.split()),
    row("special_i0e", f.unary("i0e"), INT_TO_FLOAT),
    row("special_i1 special_modified_bessel_i1", f.unary("i1"), INT_TO_FLOAT),
    row("special_modified_bessel_i0", f.unary("i0"), INT_TO_FLOAT),
    row("special_i1e", f.unary("i1e"), INT_TO_FLOAT),
    row("atan2", f.binary("atan2"), INT_TO_FLOAT),
    row("nextafter", f.nextafter, NO_OPMATH),
    row("xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other", f.xlogy, INT_TO_FLOAT),
    row(
        "special_xlog1py special_xlog1py.self_scalar special_xlog1py.other_scalar",
        f.xlog1py,
        INT_TO_FLOAT,
    ),
    row("special_entr", f.entr, INT_TO_FLOAT),
    row("sinc", f.sinc, INT_TO_FLOAT),
    row("deg2rad", f.deg2rad, INT_TO_FLOAT),
    row("rad2deg", f.rad2deg, INT_TO_FLOAT),
    row("angle", f.angle, INT_TO_FLOAT),
    row("logaddexp", f.logaddexp),
    row("logaddexp2", f.logaddexp2),
]

ACTIVATIONS = [
    row("relu", act.relu),
    row("relu6", act.relu6),
    row("hardtanh", act.hardtanh),
    row("threshold", act.threshold),
    row("leaky_relu", act.leaky_relu),
    row("_prelu_kernel", act.prelu),
    row("elu", act.elu),
    row("celu", act.celu),
    row("selu", act.selu),
    row("silu", act.silu),
    row("mish", act.mish),
    row("hardsigmoid", act.hardsigmoid),
    row("hardswish", act.hardswish),
    row("gelu", act.gelu),
    row("softplus", act.softplus),
    row("logit", act.logit, INT_TO_FLOAT),
    row("hardshrink", act.hardshrink),
    row("softshrink", act.softshrink),
]

_SPECIAL_OF_ONE = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 erfcx modified_bessel_k0 modified_bessel_k1 "
    "ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0"
).split()
_POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p"
).split()

#: Primitives whose operator is called ``special_`` and the same.
SPECIAL = [
    *(row(f"special_{name}", f.unary(name), INT_TO_FLOAT) for name in _SPECIAL_OF_ONE),
    *(
        row(
            f"special_{name} special_{name}.x_scalar special_{name}.n_scalar",
            f.binary(name),
            INT_TO_FLOAT,
        )
        for name in _POLYNOMIALS
    ),
    row(
        "special_zeta special_zeta.self_scalar special_zeta.other_scalar",
        f.binary("zeta"),
        INT_TO_FLOAT,
    ),
    row("igamma", f.binary("igamma")),
    row("igammac", f.binary("igammac")),
    row("polygamma", f.polygamma, INT_TO_FLOAT, operands="self"),
]

ROWS: list[Row] = [*ARITHMETIC, *COMPARISON, *LOGIC, *FUNCTIONS, *SPECIAL, *ACTIVATIONS]

register_rows(ROWS)
