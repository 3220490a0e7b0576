"""What a compiler makes code for, by the instructions in a binary: device/cpu/compile_target.py."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ocl_inductor.device.cpu.compile_target import CompileTarget, of_instructions

#: The probe's two kernels, in C for a compiler that takes vectors of 16 floats.
SOURCE = """
typedef float float16 __attribute__((vector_size(64), aligned(64)));
void move(const float16 *a, float16 *b) { b[0] = a[0]; }
void multiply_add(float16 *a) { a[0] = a[0] * a[1] + a[2]; }
"""


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ("-mavx512f -mprefer-vector-width=512", CompileTarget(16, True)),
        ("-mavx2 -mfma", CompileTarget(8, True)),
        ("-mavx2", CompileTarget(8, False)),
        ("-mavx", CompileTarget(8, False)),
        ("-msse4.2", CompileTarget(4, False)),
        ("", CompileTarget(4, False)),
    ],
)
def test_instructions_tell_the_target(options: str, target: CompileTarget, tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc to make the code with")
    source, binary = tmp_path / "probe.c", tmp_path / "probe.o"
    source.write_text(SOURCE)
    contract = "-ffp-contract=fast"
    subprocess.run(
        [compiler, "-O2", contract, *options.split(), "-c", str(source), "-o", str(binary)],
        check=True,
        capture_output=True,
    )
    assert of_instructions(binary.read_bytes()) == target


def test_code_of_another_processor_tells_nothing() -> None:
    assert of_instructions(b"\x7fELF" + bytes(1000)) is None
