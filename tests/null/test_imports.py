"""Imports run one way: a module imports only its own layer's group or lower ones.

``LAYERS`` lists the folders and files of the package from low to high; names of one row may import
one another, and a file that is not listed belongs to its folder's row. ``FORBIDDEN`` adds rules
that the order alone does not give. Every import counts,
lazy ones and those for type checking too. No files import one another in a circle.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import ocl_inductor

PACKAGE = Path(ocl_inductor.__file__).parent

LAYERS: list[set[str]] = [
    {"__init__"},
    {
        "errors",
        "log",
        "support.atomic_file",
        "support.child_process",
        "support.temporary",
        "support.units",
    },
    {"patches"},
    {"support.background"},
    {"device.described", "device.targets"},
    {"settings"},
    {"ir.ops"},
    {"device.builtin_check", "device.fork", "device.quirk"},
    {"device.cpu.caches", "device.cpu.core_costs", "device.cpu.flags"},
    {"device.quirks"},
    {
        "support.torch_versions",
        "ir.dtypes",
        "observe.debug_folder",
        "observe.fallback_log",
        "plan.launch_example",
        "support.private_folder",
    },
    {"support.json_cache"},
    {
        "device.driver.code_pages",
        "device.driver.handles",
        "device.driver.icd_loader",
        "device.driver.unregistered",
    },
    {"device.driver.cpu_name_override", "device.driver.discovery", "device.driver.inventory"},
    {"device.driver.pyopencl_loader"},
    {
        "device.cpu.dot_products",
        "device.cpu.compile_target",
        "device.cpu.matrix_unit",
        "device.driver.questions",
    },
    {"device.command_buffer", "device.gpu", "device.inline_queue", "device.zero_copy"},
    {"device.driver.listing", "device.facts", "device.probe"},
    {"device.driver.survey"},
    {"device.device"},
    {"device.failure"},
    {"device.select"},
    {"device.probe_process"},
    {"observe.diagnosis"},
    {"plan"},
    {
        "runtime.counters",
        "runtime.device_clock",
        "runtime.event_times",
        "runtime.host_bytes",
        "runtime.plan_index",
    },
    {"runtime.forms", "runtime.pressure", "runtime.sizes", "runtime.stream"},
    {"runtime.discrete.pinned", "runtime.discrete.ranges"},
    {"runtime.discrete.transfers"},
    {"resident"},
    {"runtime.parameters", "runtime.recording", "runtime.store"},
    {"runtime.build", "runtime.memory"},
    {"runtime.discrete"},
    {"runtime.call"},
    {"ir"},
    {"templates.trial", "templates.tuned_values"},
    {"templates.matrix_unit_costs", "templates.tile_tables"},
    {"templates.render", "templates.spec"},
    {"templates.blocking"},
    {"templates.mma_tiles", "templates.simt_tiles"},
    {"templates.gemm"},
    {"templates.attention", "templates.conv"},
    {
        "templates.ctc",
        "templates.embedding",
        "templates.fourier",
        "templates.linalg",
        "templates.recurrent",
        "templates.sort",
    },
    {"templates.winograd"},
    {"templates.contributed", "templates.library", "templates.parts", "templates.registry"},
    {"operators"},
    {"fx"},
    {"passes"},
    {"lowering"},
    {"schedule"},
    {"memory"},
    {"codegen.cost", "codegen.kernel_names", "codegen.work"},
    {"codegen.printers"},
    {"codegen.tree"},
    {"codegen.kernel"},
    {"codegen.statements"},
    {"codegen.arguments", "codegen.lanes", "codegen.prelude"},
    {"codegen.passes"},
    {"codegen.loops"},
    {"codegen.simt"},
    {"codegen.loop_kernels", "codegen.template_kernel", "codegen.verify"},
    {"codegen.launches", "codegen.plan_specs"},
    {"codegen.plan_builder"},
    {"pipeline.verify"},
    {"observe.report"},
    {"pipeline.data_dependent"},
    {"capture"},
    {"tune"},
    {"observe.profiler"},
    {"pipeline.retry"},
    {"compile", "_autoload"},
    {"eager.interface"},
    {"eager"},
    {"observe.explain"},
    {"sweep.process", "sweep.status", "sweep.vision_import"},
    {"sweep.families", "sweep.record", "sweep.rows"},
    {"sweep.accuracy", "sweep.bisect", "sweep.performance", "sweep.report"},
    {"sweep.run"},
    {"cli"},
]
#: Rooms whose files each have a row: their own ``__init__.py`` imports nothing.
ROOMS = {
    "codegen",
    "device",
    "device.cpu",
    "device.driver",
    "observe",
    "pipeline",
    "runtime",
    "support",
    "sweep",
    "templates",
}

#: In one folder, so that its list can be read.
MOST_FILES = 16

COMPILER = {
    "capture",
    "passes",
    "lowering",
    "ir",
    "schedule",
    "memory",
    "codegen",
    "templates",
    "pipeline",
    "compile",
    "fx",
    "operators",
}

FORBIDDEN: dict[str, set[str]] = {
    # A plan is replayed without the compiler, so that a warm start loads none of it.
    "runtime": COMPILER,
    # The compiler makes a plan; what runs it is not its business.
    **{
        stage: {"runtime"}
        for stage in ("passes", "lowering", "ir", "schedule", "memory", "codegen")
    },
    "plan": COMPILER | {"runtime"},
    # What comes before lowering knows operators and graphs, not how anything is lowered.
    "capture": {"lowering", "schedule", "memory", "codegen"},
    "lowering": {"capture", "passes"},
}


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _part(module: tuple[str, ...]) -> str:
    """What of ``LAYERS`` a module is: the longest name in it that begins the module's own."""
    names = [".".join(module[1:end]) for end in range(len(module), 1, -1)]
    known = set().union(*LAYERS)
    return next((n for n in names if n in known), ".".join(module[1:])) or "__init__"


def _module(path: Path) -> tuple[str, ...]:
    parts = ("ocl_inductor", *path.relative_to(PACKAGE).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _imports(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    """(line, module) of each import of this package in a file."""
    module = _module(path)
    package = module if path.name == "__init__.py" else module[:-1]
    found: list[tuple[int, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets = [tuple(a.name.split(".")) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            # `from ocl_inductor.device import x`: x may be a module.
            targets = [(*base, a.name) if _is_module((*base, a.name)) else base for a in node.names]
        else:
            continue
        found += [(node.lineno, t) for t in targets if t and t[0] == "ocl_inductor"]
    return found


def _is_module(module: tuple[str, ...]) -> bool:
    place = PACKAGE.joinpath(*module[1:])
    return module[0] == "ocl_inductor" and (place.is_dir() or place.with_suffix(".py").is_file())


def _layer(part: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if part in names), None)


def test_every_part_has_a_layer() -> None:
    unknown = {_part(_module(p)) for p in _files()} - set().union(*LAYERS) - ROOMS
    assert not unknown, f"add to LAYERS: {sorted(unknown)}"
    for room in ROOMS:
        assert not _imports(PACKAGE.joinpath(*room.split("."), "__init__.py"))


def test_every_row_is_there() -> None:
    names = set().union(*LAYERS) - {"__init__"} | ROOMS
    gone = [n for n in names if not _is_module(("ocl_inductor", *n.split(".")))]
    assert not gone, f"remove from LAYERS: {sorted(gone)}"


def test_imports_run_one_way() -> None:
    wrong = []
    for path in _files():
        module = _module(path)
        here, folder = _part(module), module[1] if len(module) > 1 else ""
        own = _layer(here)
        for line, imported in _imports(path):
            target = _part(imported)
            other = _layer(target)
            if other is None or own is None:
                continue  # a name of __init__, or reported by the test above
            if other > own or (imported[1:2] and imported[1] in FORBIDDEN.get(folder, ())):
                wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {here} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_names_that_others_import_exist() -> None:
    """In a test that no driver here runs, a name that has moved is found too."""
    root = PACKAGE.parent
    missing = []
    for folder in ("benchmarks", "conformance", "examples", "fuzz", "gpu_check", "tests", "tools"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and _is_ours(node.module):
                    module = importlib.import_module(str(node.module))
                    missing += [
                        f"{path.relative_to(root)}:{node.lineno}: {node.module}.{a.name}"
                        for a in node.names
                        if not _is_module((*str(node.module).split("."), a.name))
                        and not hasattr(module, a.name)
                    ]
    assert not missing, "\n".join(missing)


def _is_ours(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == PACKAGE.name


def test_folders_stay_small() -> None:
    folders: dict[Path, int] = {}
    for path in _files():
        if path.name != "__init__.py":
            folders[path.parent] = folders.get(path.parent, 0) + 1
    large = {str(f.relative_to(PACKAGE)): n for f, n in folders.items() if n > MOST_FILES}
    assert not large, f"split by concept: {large}"


def test_imports_make_no_circle() -> None:
    graph = {_name(_module(p)): {_name(m) for _, m in _imports(p)} for p in _files()}
    reached = {name: _reached(name, graph) for name in graph}
    circles = {
        frozenset(other for other in reached[name] if name in reached.get(other, ()))
        for name in graph
        if name in reached[name]
    }
    assert not circles, [sorted(c) for c in circles]


def _name(module: tuple[str, ...]) -> str:
    return ".".join(module[1:]) or "__init__"


def _reached(name: str, graph: dict[str, set[str]]) -> set[str]:
    """Every module that one imports, itself or through others."""
    found: set[str] = set()
    left = [name]
    while left:
        new = graph.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def test_class_names_mean_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, twice
