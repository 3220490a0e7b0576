"""The table of primitives (ir/ops.py): each row has all it needs, and nothing is without a row."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from evaluate import make_device

import ocl_inductor
from ocl_inductor.codegen.printers.forms import FORMS, EmitTarget
from ocl_inductor.codegen.printers.math_library import function_names
from ocl_inductor.codegen.printers.primitives import emit_primitive
from ocl_inductor.codegen.printers.written import WRITTEN
from ocl_inductor.errors import VerifyError
from ocl_inductor.ir.dtypes import MEMORY_TYPE, REGISTER_TYPE
from ocl_inductor.ir.expr import Expr, const, load, op
from ocl_inductor.ir.ops import INTEGERS, PRIMITIVES, ROWS, STRUCTURAL, Printer, PrintForm
from ocl_inductor.pipeline.verify import _verify_body

PACKAGE = Path(ocl_inductor.__file__).parent
DEVICE_TESTS = Path(__file__).parents[1] / "device"
#: Their results depend on more than the operands.
WITHOUT_REFERENCE = {"cast", "as", "reinterpret", "random32", "random64"}
#: Functions of ir/expr.py that take the name of a primitive first.
MAKERS = {"op", "compare", "Expr"}


def test_names_are_of_one_row() -> None:
    assert len(PRIMITIVES) == len(ROWS)
    assert not STRUCTURAL & set(PRIMITIVES)
    assert set(REGISTER_TYPE) == set(MEMORY_TYPE)


def test_printers_have_their_functions() -> None:
    printers = [p for row in ROWS for p in row.printers()]
    assert {p.form for p in printers} == set(FORMS) | {PrintForm.WRITTEN} == set(PrintForm)
    assert {p.text for p in printers if p.form is PrintForm.WRITTEN} == set(WRITTEN)
    of_library = {p.text: p.types for p in printers if p.form is PrintForm.LIBRARY}
    assert set(of_library) <= set(function_names())
    assert all(of_library.values())


@pytest.mark.parametrize("name", sorted(set(PRIMITIVES) - WITHOUT_REFERENCE))
def test_row_agrees_with_its_reference(name: str) -> None:
    """Operands of a dtype that the row prints: as many as ``arity``, and a result of ``result``."""
    row = PRIMITIVES[name]
    printers = row.printers()
    integers = len(printers) == 1 and set(printers[0].types) == set(INTEGERS)
    logical = isinstance(row.printer, Printer) and row.printer.form is PrintForm.BITS
    bitwise = name.startswith("bitwise_") or name == "mul_hi"
    dtype = torch.bool if logical else torch.int32 if integers or bitwise else torch.float32
    dtypes = [dtype] * row.arity
    if name == "where":
        dtypes[0] = torch.bool
    if name == "ldexp":
        dtypes[1] = torch.int32
    assert row.reference is not None
    result = row.reference(*(torch.ones(3, dtype=d) for d in dtypes))
    assert result.dtype == row.result_dtype(tuple(dtypes))

    device = make_device()
    node = op(name, *(load(f"in{n}", 0, d) for n, d in enumerate(dtypes)))
    for width in (1, device.vector_width):
        text = emit_primitive(EmitTarget(width, device), node, [f"x{n}" for n in range(row.arity)])
        assert all(f"x{n}" in text for n in range(row.arity)), text


@pytest.mark.parametrize("name", sorted(WITHOUT_REFERENCE))
def test_without_reference(name: str) -> None:
    assert PRIMITIVES[name].reference is None


def test_every_primitive_has_a_device_test() -> None:
    others = (DEVICE_TESTS / "test_random_bits.py", DEVICE_TESTS / "test_special.py")
    files = (*DEVICE_TESTS.glob("test_primitives*.py"), *others)
    text = "".join(f.read_text(encoding="utf-8") for f in files)
    missing = [n for n in PRIMITIVES if n != "as" and f'"{n}"' not in text]
    assert not missing


def test_package_names_no_primitive_without_a_row() -> None:
    unknown = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = _name_given(node)
            if name is not None and name not in PRIMITIVES and name not in STRUCTURAL:
                unknown.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert not unknown


def _name_given(node: ast.AST) -> str | None:
    """The name that a call of one of ``MAKERS`` gives as a literal."""
    match node:
        case ast.Call(func=ast.Name(id=made), args=[ast.Constant(value=str(name)), *_]):
            return name if made in MAKERS else None
    return None


def test_dtype_of_a_node_follows_its_row() -> None:
    x, n = const(1.5, torch.float32), const(2, torch.int32)
    assert op("isnan", x).dtype is torch.bool
    assert op("frexp_exponent", x).dtype is torch.int32
    assert op("where", op("isnan", x), n, n).dtype is torch.int32
    with pytest.raises(TypeError, match="dtype of its result"):
        op("cast", x)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (Expr("no_such", (), torch.float32), "unknown operation"),
        (Expr("add", (const(1, torch.int32),), torch.int32), "1 of 2 operands"),
        (Expr("isnan", (const(1.0, torch.float32),), torch.float32), "bool as torch.float32"),
    ],
)
def test_wrong_nodes_are_refused(body: Expr, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        _verify_body("schedule", "buf0", body)
