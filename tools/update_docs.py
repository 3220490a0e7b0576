"""Rewrite the generated parts of ``docs/``: ``python tools/update_docs.py``.

Tables come from the code they describe; ``tests/null/test_docs.py`` compares them. The kernels in
``pipeline.md`` come from compiling the page's example; they depend on the machine, so that they are
only rewritten here, and only on one whose vectors are as wide as the page's.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from dataclasses import MISSING, Field, fields
from pathlib import Path

from ocl_inductor import log, settings
from ocl_inductor.patches import table

ROOT = Path(__file__).parents[1]
#: Of the kernel in ``pipeline.md``: AVX-512's.
_SAMPLE_LANES = 16


def accepted(spec: Field) -> str:
    """What the parser of a setting takes, in its own words."""
    try:
        spec.metadata["parse"](object())
    except settings._BadValue as bad:
        return ", ".join(f"`{a}`" if " " not in a else a for a in bad.args)
    raise AssertionError(f"{spec.name} takes anything")


def settings_table() -> str:
    """One row a setting."""
    rows = ["| option | variable | values | default | |", "|---|---|---|---|---|"]
    for spec in fields(settings.Settings):
        default = "see below" if spec.default is MISSING else f"`{spec.default}`"
        values = accepted(spec)
        what = spec.metadata["help"]
        rows.append(f"| `{spec.name}` | `{spec.metadata['env']}` | {values} | {default} | {what} |")
    return "\n".join(rows)


def logs_table() -> str:
    """One row an artefact of ``TORCH_LOGS``."""
    rows = ["| name | what it prints | when |", "|---|---|---|"]
    for kind, what in log.ARTIFACTS.items():
        when = "only when named" if kind in log._QUIET else "also under `+opencl`"
        rows.append(f"| `{log.artifact_name(kind)}` | {what} | {when} |")
    return "\n".join(rows)


def patches_table() -> str:
    """One row a patch."""
    rows = ["| patch | of | what | why | tried with | can be off |", "|---|---|---|---|---|---|"]
    for patch in table.PATCHES:
        off = "yes" if patch.required is None else f"no: {patch.required}"
        rows.append(
            f"| `{patch.name}` | {patch.of} | {patch.what} | {patch.why} | {patch.tried} | {off} |"
        )
    return "\n".join(rows)


def kernel(profile: str) -> str:
    """The kernel of the example in ``pipeline.md``, its repetitive folds left out."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        options = {"debug_dir": folder, "profile": profile}
        function = torch.compile(lambda x: x.softmax(-1), backend="opencl", options=options)
        function(torch.randn(128, 1024))
        (path,) = Path(folder).glob("*/*kernels.cl")
        text = path.read_text().strip()
    folds = r"(\n +)const \w+ (\w+)_lane_\d+ = .*(\n.*_lane_.*)*"
    text = re.sub(folds, r"\1// … \2 folded …", text)
    # Of vectors side by side the first one, and of their running values the first combination.
    text = re.sub(r"\n +\{\n +const int v1 = v1_run \+ [1-9].*?\n +\}(?=\n)", "", text, flags=re.S)
    declared = r"\n( +)float\d* \w+_way1 = .*(\n.*_way\d = .*)*"
    text = re.sub(declared, r"\n\1// … and _way1 to 3 …", text)
    text = re.sub(r"(\n.*_way1\).*?;)(\n.*_way\d\).*;)+", r"\1  // and of _way2 and 3", text)
    return f"```c\n{text}\n```"


def lanes() -> int:
    """Numbers of float32 in a vector of the device in use."""
    from ocl_inductor.device.select import select_device

    return select_device().info.vector_width


def first_sweep(text: str) -> str:
    """From the first accumulator to the row's maximum."""
    found = re.search(r"\n( *float\d* acc_arg2 = .*?float r1 = [^\n]*)", text, re.S)
    assert found is not None
    return f"```c\n{textwrap.dedent(found[1])}\n```"


def gpu_tables() -> str:
    """What is on record of GPU code under offline compilers."""
    sys.path.insert(0, str(ROOT))  # no part of the installed package
    from gpu_check.ratchet import read_ratchet
    from gpu_check.report import tables

    return tables(read_ratchet())


def replace(page: str, name: str, content: str) -> None:
    """Put ``content`` between the markers ``name:begin`` and ``name:end`` of a page."""
    path = ROOT / "docs" / page
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}")


def main() -> None:
    replace("options.md", "settings", settings_table())
    replace("options.md", "logs", logs_table())
    replace("patches.md", "patches", patches_table())
    replace("gpu.md", "gpu-check", gpu_tables())
    if lanes() != _SAMPLE_LANES:
        print(f"pipeline.md: kept, its sample has {_SAMPLE_LANES} lanes, this processor {lanes()}")
        return
    replace("pipeline.md", "vector", kernel("vector"))
    replace("pipeline.md", "simt", first_sweep(kernel("simt")))


if __name__ == "__main__":
    main()
