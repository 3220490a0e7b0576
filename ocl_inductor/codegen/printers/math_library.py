"""The library functions ``ocl_<name>_<type>`` of the templates in ``FILES``, on demand.

Each ``ocl_`` macro of a template emits one function for one register type. The kernel's text
determines which are needed, and their text which further ones.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from ocl_inductor.capture.torch_versions import float8_saturates
from ocl_inductor.codegen.printers import chebyshev
from ocl_inductor.codegen.printers.incomplete_gamma import uniform_coefficients

FILES = (
    "library/math.cl.jinja",
    "library/random.cl.jinja",
    "library/bessel.cl.jinja",
    "library/gamma.cl.jinja",
    "library/polynomials.cl.jinja",
    "library/special.cl.jinja",
    "library/float8.cl.jinja",
    "library/indices.cl.jinja",
)
#: Special functions that are a primitive of the same name.
SPECIAL_UNARY = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 erfcx modified_bessel_k0 modified_bessel_k1 "
    "ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 trigamma"
)
SPECIAL_BINARY = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p zeta igamma igammac"
)
_CALL = re.compile(
    r"\bocl_([a-z0-9_]+)_((?:float|double|char|uchar|short|int|uint|long)(?:2|3|4|8|16)?)\b"
)
_TYPE = re.compile(r"([a-z]+)(\d*)")
_MACRO = re.compile(r"{%-? macro ocl_(\w+)\(")
_FOLDER = Path(__file__).parents[2] / "templates"
#: Types for which :func:`library_source` writes everything when no kernel text is given.
_FLOATS, _INTEGERS = ("float", "double"), ("char", "uchar", "short", "int", "long")
#: Of the library's integer functions, those that only take positions.
_OF_POSITIONS = frozenset({"checked_index", "no_index", "report_index"})
_OF_INTEGERS = frozenset(
    "trunc_div floor_div remainder fmod gcd left_shift right_shift pow_int".split()
)
_OF_BOTH = frozenset("trunc_div floor_div remainder fmod".split())
_OF_DOUBLES = _OF_BOTH | frozenset(
    "to_int to_long to_ulong erfinv normal_cdf logaddexp digamma i0 i0e i1 i1e".split()
    + "igamma_factor igamma_series igammac_series igammac_fraction igammac_uniform".split()
    + SPECIAL_UNARY.split()
    + SPECIAL_BINARY.split()
    + ["frexp_mantissa", "frexp_exponent", "pow_lanes"]
)
#: Generators of random bits, by the types they are written for, and their fewest lanes.
_RANDOM = {
    "philox": (("uint",), 1),
    "philox_pairs": (("uint",), 2),
    "random32": (("int", "long"), 1),
    "random64": (("int", "long"), 1),
    "random32_run": (("int",), 4),
    "random64_run": (("long",), 2),
}
_SIZE = {
    "char": 8, "uchar": 8, "short": 16, "int": 32, "uint": 32, "long": 64,
    "float": 32, "double": 64,
}  # fmt: skip
_SIGNED = {8: "char", 16: "short", 32: "int", 64: "long"}


@dataclass(frozen=True, slots=True)
class RegisterType:
    """A type's properties for the macros: ``float8`` has base ``float`` and mask type ``int8``."""

    name: str
    base: str
    width: int

    @classmethod
    def parse(cls, name: str) -> RegisterType:
        found = _TYPE.fullmatch(name)
        assert found is not None
        return cls(name, found.group(1), int(found.group(2) or 1))

    def __str__(self) -> str:
        return self.name

    @property
    def lanes(self) -> str:
        """The suffix of vector types: empty for scalars."""
        return "" if self.width == 1 else str(self.width)

    @property
    def bits(self) -> int:
        return _SIZE[self.base]

    @property
    def mask(self) -> str:
        """The signed integer type of the same size: what comparisons of vectors give."""
        return _SIGNED[self.bits] + self.lanes

    @property
    def floating(self) -> bool:
        return self.base in _FLOATS

    @property
    def unsigned(self) -> bool:
        return self.base == "uchar"

    def convert(self, text: str, base: str) -> str:
        """``text`` as lanes of ``base``."""
        return f"({base})({text})" if self.width == 1 else f"convert_{base}{self.lanes}({text})"

    def any(self, mask: str) -> str:
        """Whether a comparison holds in any lane: a scalar one gives 1, whose top bit is clear."""
        return f"({mask})" if self.width == 1 else f"any({mask})"


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


@functools.cache
def _macros(file: str) -> Any:
    """The macros of one template, as attributes. Jinja takes 0.1 s for the largest."""
    tables: dict[str, Any] = {n: v for n, v in vars(chebyshev).items() if n.isupper()}
    tables["uniform_coefficients"] = uniform_coefficients
    tables["float8_saturates"] = float8_saturates()
    return _environment().get_template(file, globals=tables).module


@functools.cache
def _files() -> dict[str, str]:
    """The template that has each function, by its name without prefix and type."""
    return {
        name: file
        for file in FILES
        for name in _MACRO.findall((_FOLDER / file).read_text(encoding="utf-8"))
    }


def function_names() -> tuple[str, ...]:
    """Names of all functions of the library, without prefix and type."""
    return tuple(_files())


def has_function(name: str) -> bool:
    """Whether the library has its own version of the builtin ``name`` for single precision."""
    if name not in _files() or name in _RANDOM or name in _OF_POSITIONS:
        return False
    return name in _OF_BOTH or name not in _OF_INTEGERS


@functools.cache
def _function(name: str, type_name: str) -> str:
    """The text of one function; raises KeyError for a name the library does not have."""
    file = _files().get(name)
    if file is None:
        raise KeyError(f"ocl_{name}_{type_name} is in none of {', '.join(FILES)}")
    macro = getattr(_macros(file), f"ocl_{name}")
    text = str(macro(RegisterType.parse(type_name))).strip()
    return re.sub(r"\n{2,}", "\n", text) + "\n"


@functools.lru_cache(maxsize=1024)
def _closure(text: str) -> str:
    order: dict[str, str] = {}

    def visit(source: str, inside: str) -> None:
        for name, type_name in _CALL.findall(source):
            key = f"{name}_{type_name}"
            if key != inside and key not in order:
                function = _function(name, type_name)
                visit(function, key)
                order[key] = function

    visit(text, "")
    return "".join(order.values())


def library_source(device: Any, width: int, source: str | None = None) -> str:
    """The functions ``source`` calls and those they call, or all of them at one ``width``."""
    if source is None:
        suffix = "" if width == 1 else str(width)
        calls = []
        for name in function_names():
            if name in _RANDOM:
                kinds, fewest = _RANDOM[name]
                calls += [f"ocl_{name}_{k}{suffix}" for k in kinds if width >= fewest]
                continue
            if name in _OF_POSITIONS:
                calls += [f"ocl_{name}_{kind}{suffix}" for kind in ("int", "long")]
                continue
            bases: tuple[str, ...] = _INTEGERS if name in _OF_INTEGERS else ()
            if name not in _OF_INTEGERS or name in _OF_BOTH:
                bases += ("float",)
            if device.fp64 and name in _OF_DOUBLES:
                bases += ("double",)
            calls += [f"ocl_{name}_{base}{suffix}" for base in bases]
        source = " ".join(calls)
    return _closure(source)
