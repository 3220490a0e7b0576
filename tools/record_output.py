"""Run the commands shown in pages of ``docs/`` again, and put what they say today in their place.

::

    python tools/record_output.py              # every page below
    python tools/record_output.py cache.md

A block without a language whose first line is ``$ command`` is one that was run. Each page gets a
home, and so a cache, of its own, and the programs that it shows. Lines of a block are cut where
they were cut before: at a line ``…`` or ``[... words ...]``. A comment above a block steers this:

    <!-- by hand -->             leave it as it is
    <!-- before: COMMAND -->     run this first, unseen
    <!-- keys: e91=softmax@intel -->  which cache entry a key in the page's commands stands for

What comes out depends on the machine: read the difference before you keep it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ocl_inductor.settings import default_cache_dir

ROOT = Path(__file__).parents[1]

#: Pages, and under which names their programs are saved, in the order of the page.
PROGRAMS = {
    "cache.md": ("model.py",),
    "cli.md": ("model.py",),
    "explain.md": ("classify.py", "broken.py"),
    "debugging.md": ("logs.py",),
}
_BLOCK = re.compile(r"(?:<!-- (?P<note>[^\n]*) -->\n)?```\n(?P<text>\$ .*?)```", re.S)
_CUT = re.compile(r"…|\[\.\.\. .* \.\.\.\]")
#: Time, process and place in a line of PyTorch's log.
_LOG_PLACE = re.compile(r"^[VIWE]\d{4} [\d:.]+ \d+ \S+:\d+\] ")
_KEYS = re.compile(r"<!-- keys: (.*) -->")


class Session:
    """A shell in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        ours = ("OCL_", "OPENCL_", "PYOPENCL_", "POCL_", "RUSTICL_", "TORCH", "XDG_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{env['PATH']}"
        self.env = {
            **env,
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "COLUMNS": "80",
        }

    def run(self, command: str) -> str:
        """What it says, and its exit code where that is not 0."""
        done = subprocess.run(
            ["bash", "-c", command.replace("/home/me", str(self.home))],
            cwd=self.home,
            env=self.env,
            capture_output=True,
            text=True,
        )
        # What a program of the page prints while a command of ours watches is not shown.
        whole = done.returncode != 0 or not command.startswith("ocl-inductor")
        said = (done.stderr + done.stdout if whole else done.stdout).strip("\n")
        said += f"\n(exit code {done.returncode})" if done.returncode else ""
        venv = Path(sys.prefix)
        for path, name in (
            (self.home, "/home/me"),
            (venv, ".venv"),
            (venv.resolve(), ".venv"),
            (ROOT, "/home/me/ocl_inductor"),
        ):
            said = said.replace(str(path), name)
        return "\n".join(_LOG_PLACE.sub("", line).rstrip() for line in said.split("\n"))


def cut(before: str, now: str) -> str:
    """``now``, without as much of its middle as was left out of ``before``."""
    old, new = before.split("\n"), now.split("\n")
    at = [n for n, line in enumerate(old) if _CUT.fullmatch(line)]
    if not at:
        return now
    head, tail = at[0], len(old) - at[-1] - 1
    # Where the last line before the cut is there still, the cut stays behind it.
    last = next((n for n in range(head - 1, -1, -1) if old[n]), 0)
    if old[last] in new:
        head = new.index(old[last]) + head - last
    if len(new) <= head + tail:
        return now
    return "\n".join((*new[:head], old[at[0]], *(new[-tail:] if tail else ())))


def again(block: str, session: Session) -> str:
    """A block with its commands' output of today."""
    parts = []
    for part in re.split(r"^(?=\$ )", block.rstrip("\n"), flags=re.M)[1:]:
        command, _, before = part.partition("\n")
        print(f"  {command}", file=sys.stderr)
        now = session.run(command.removeprefix("$ "))
        blank = "\n" * (len(before) - len(before.rstrip("\n")))
        parts.append(f"{command}\n{cut(before.rstrip(), now)}{blank}".rstrip(" "))
    return "\n".join(p.removesuffix("\n") if not p.endswith("\n\n") else p for p in parts) + "\n"


def with_keys_of_today(page: str, session: Session) -> str:
    """The page, its keys (three digits) replaced by those of the same kernels in this cache."""
    found = _KEYS.search(page)
    if found is None:
        return page
    entries = json.loads(session.run("ocl-inductor cache list --json"))
    for pair in found[1].split():
        old, _, what = pair.partition("=")
        kernel, _, device = what.partition("@")
        (entry,) = (e for e in entries if kernel in e["name"] and device in e["device"]["spec"])
        page = re.sub(rf"\b{old}\b", entry["key"][:3], page)
    return page


def record(name: str) -> None:
    """Rewrite one page."""
    path = ROOT / "docs" / name
    page = path.read_text()
    with tempfile.TemporaryDirectory(prefix="me_") as folder:
        session = Session(Path(folder))
        roofs = default_cache_dir() / "roofs"  # measured when the machine was idle, let us hope
        if roofs.is_dir():
            cache = session.home / ".cache" / "ocl_inductor"
            cache.mkdir(parents=True, mode=0o700)
            shutil.copytree(roofs, cache / "roofs")
        programs = re.findall(r"```python(?: no-run)?\n(.*?)```", page, re.S)
        for program, text in zip(PROGRAMS[name], programs, strict=False):
            (session.home / program).write_text(text)
        position, first = 0, True
        while found := _BLOCK.search(page, position):
            note = found["note"] or ""
            if note == "by hand":
                position = found.end()
                continue
            if note.startswith("before: "):
                print(session.run(note.removeprefix("before: ")), file=sys.stderr)
            if first:  # the cache is filled by now
                first = False
                page = with_keys_of_today(page, session)
                continue_from = _BLOCK.search(page, position)
                assert continue_from is not None
                found = continue_from
            text = again(found["text"], session)
            page = page[: found.start("text")] + text + page[found.end("text") :]
            position = found.start("text") + len(text) + 3
    path.write_text(page)


def main() -> None:
    for name in sys.argv[1:] or PROGRAMS:
        print(name, file=sys.stderr)
        record(name)


if __name__ == "__main__":
    main()
