"""The library functions ``ocl_<name>_<type>`` of the templates in ``FILES``, on demand.

Each ``ocl_`` macro of a template emits one function for one register type. The kernel's text
determines which are needed, and their text which further ones.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import jinja2

from ocl_inductor.codegen.printers import chebyshev
from ocl_inductor.codegen.printers.incomplete_gamma import uniform_coefficients
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.ops import FLOATS, PRIMITIVES, PrintForm
from ocl_inductor.plan.kernel_code import Definition
from ocl_inductor.support.torch_versions import float8_saturates

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
_CALL = re.compile(
    r"\bocl_([a-z0-9_]+)_((?:float|double|char|uchar|short|int|uint|long)(?:2|3|4|8|16)?)\b"
)
_TYPE = re.compile(r"([a-z]+)(\d*)")
_MACRO = re.compile(r"{%-? macro ocl_(\w+)\(")
_FOLDER = Path(__file__).parents[2] / "templates"
#: Base types that functions of the library are written for: those of primitives as their rows
#: say, of others here. What is named in neither is of single precision.
_TYPES: dict[str, tuple[str, ...]] = {
    **{
        p.text: p.types for row in PRIMITIVES.values() for p in row.printers()
        if p.form is PrintForm.LIBRARY
    },
    **dict.fromkeys(("wrapped_index", "bounded_index", "report_outside"), ("int", "long")),
    **dict.fromkeys(("narrowed_index", "report_narrowed", "report_index"), ("long",)),
    **dict.fromkeys(("to_int", "to_long", "to_ulong", "pow_lanes"), FLOATS),
    **dict.fromkeys(("igamma_factor", "igamma_series", "igammac_series"), FLOATS),
    **dict.fromkeys(("igammac_fraction", "igammac_uniform"), FLOATS),
    **dict.fromkeys(("philox", "philox_pairs"), ("uint",)),
    "random32_run": ("int",),
    "random64_run": ("long",),
}  # fmt: skip
#: The fewest lanes of functions that have no scalar form.
_FEWEST_LANES = {"philox_pairs": 2, "random32_run": 4, "random64_run": 2}
#: Functions of a scalar form alone.
_SCALAR = frozenset({"report_index"})
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
        return self.base in FLOATS

    @property
    def unsigned(self) -> bool:
        return self.base == "uchar"

    def convert(self, text: str, base: str) -> str:
        """``text`` as lanes of ``base``."""
        return f"({base})({text})" if self.width == 1 else f"convert_{base}{self.lanes}({text})"

    def of(self, base: str) -> RegisterType:
        """As many lanes of ``base``."""
        return RegisterType(base + self.lanes, base, self.width)

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
def _macros(file: str) -> object:
    """The macros of one template, as attributes. Jinja takes 0.1 s for the largest."""
    tables: dict[str, object] = {n: v for n, v in vars(chebyshev).items() if n.isupper()}
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
    return name in _files() and "float" in _types(name)


def _types(name: str) -> tuple[str, ...]:
    return _TYPES.get(name, ("float",))


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
def library_functions(text: str) -> tuple[Definition, ...]:
    """The functions that ``text`` calls, and those that they call, before what calls them."""
    order: dict[str, str] = {}

    def visit(source: str, inside: str) -> None:
        for name, type_name in _CALL.findall(source):
            key = f"{name}_{type_name}"
            if key != inside and key not in order:
                function = _function(name, type_name)
                visit(function, key)
                order[key] = function

    visit(text, "")
    return tuple(Definition(f"ocl_{key}", text, True) for key, text in order.items())


def whole_library(device: DeviceInfo, width: int) -> tuple[Definition, ...]:
    """All functions at one width."""
    suffix = "" if width == 1 else str(width)
    calls = [
        f"ocl_{name}_{base}{suffix}"
        for name in function_names()
        for base in _types(name)
        if width >= _FEWEST_LANES.get(name, 1)
        and (width == 1 or name not in _SCALAR)
        and (device.fp64 or base != "double")
    ]
    return library_functions(" ".join(calls))
