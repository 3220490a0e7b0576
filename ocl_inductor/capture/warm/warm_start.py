"""Plans cached between processes through PyTorch's AOTAutograd cache.

A hit skips AOTAutograd's tracing and our whole compiler: the remaining work is Dynamo, reading the
entry and creating kernels from binaries. The cache is private API of PyTorch; changes to it are in
``patches/pytorch/plan_cache*.py``, all other use of it in this file. Where it is not as expected
(``UNAVAILABLE`` names what is missing), or a graph cannot be stored, graphs are compiled in each
process, and the counters show it.

Entries are below our own cache folder: while one of our graphs is compiled, the cache's two
functions that touch files are replaced by ours, which also verify what they read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from ocl_inductor.capture.warm.plan_guards import Numbers, add_guards, allow, guards_on, numbers_of
from ocl_inductor.capture.warm.plan_key import (
    environment_key,
    plan_key,
    shared_memory,
)
from ocl_inductor.capture.warm.torch_sources import provide_digest
from ocl_inductor.capture.warm.unseen_code import why_not_storable
from ocl_inductor.device.device import Device
from ocl_inductor.device.select import select_device
from ocl_inductor.log import artifact, logger
from ocl_inductor.observe.fallback_log import say_fallback
from ocl_inductor.observe.report.trace import trace_kernels
from ocl_inductor.patches.pytorch.autograd_config import storing_config
from ocl_inductor.patches.pytorch.inductor_passes import leave_out
from ocl_inductor.patches.pytorch.plan_cache import redirect
from ocl_inductor.patches.pytorch.plan_cache_keys import name_constants
from ocl_inductor.patches.switch import enabled
from ocl_inductor.plan.plan import Plan
from ocl_inductor.plan.plan_bytes import PlanNotStorable, dump_plan, load_plan
from ocl_inductor.plan.staged_plan import StagedPlan
from ocl_inductor.runtime.build.programs import start_builders
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.call.staged import StagedExecutor
from ocl_inductor.runtime.counters import count, count_plan, host_calls
from ocl_inductor.runtime.store import artifacts
from ocl_inductor.runtime.store.plan_files import PlanFiles
from ocl_inductor.settings import Settings
from ocl_inductor.support.background import make_in_background

_log = logger(__name__)
_code_log = artifact(__name__, "code")
#: Log artefacts that only compilation produces: with one of them on, the cache is not read.
_LOGGED_BY_COMPILING = ("fusion", "memory", "selection")
_SHOWN_BY_COMPILING = tuple(artifact(__name__, kind) for kind in _LOGGED_BY_COMPILING)

#: What PyTorch lacks for plans to be cached; None for nothing.
UNAVAILABLE: str | None = None

try:
    from torch._functorch import config as _functorch_config
    from torch._functorch._aot_autograd.aot_autograd_result import BundledAOTAutogradResult
    from torch._functorch._aot_autograd.autograd_cache import (
        AOTAutogradCache,
        AOTAutogradCachePickler,
        BypassAOTAutogradCache,
        check_node_safe,
        should_use_local_autograd_cache,
    )
    from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
    from torch._inductor.output_code import OutputCode

    for _name in ("bundled_autograd_cache", "force_non_lazy_backward_lowering"):
        getattr(_functorch_config, _name)
    for _name in ("_write_to_local_cache", "iterate_over_candidates"):
        getattr(AOTAutogradCache, _name)
    torch.compiler.config.cache_key_tag  # noqa: B018
except Exception as _error:  # another PyTorch
    UNAVAILABLE = f"{type(_error).__name__}: {_error}"
    OutputCode = object  # type: ignore[assignment, misc]


GraphFunction = Callable[[GraphModule, Sequence[object]], Executor | StagedExecutor]


class Graphs:
    """The compiled graphs of one compilation, in order."""

    def __init__(self, stored: bool) -> None:
        """``stored``: whether AOTAutograd's cache is to store their plans."""
        self._stored = stored
        self._found: list[object] = []

    def compiler(self, function: GraphFunction) -> object:
        """A compiler of graphs as AOTAutograd takes it."""

        def compile_graph(gm: GraphModule, inputs: Sequence[object]) -> Executor | StagedExecutor:
            compiled = function(gm, inputs)
            self.note(compiled)
            return compiled

        return _serializable(compile_graph) if self._stored else compile_graph

    def note(self, graph: object) -> None:
        self._found.append(graph)

    def only(self) -> Executor | None:
        """The executor of the only graph, once it is ready, or None."""
        if len(self._found) != 1:
            return None
        (graph,) = self._found
        run = graph.run if isinstance(graph, StoredPlan) else graph
        return run if isinstance(run, Executor) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """One compilation: the place of its entries, and the device and settings of a stored plan."""

    device: Device
    settings: Settings
    key: str
    files: PlanFiles
    graphs: Graphs
    numbers: Numbers
    missed: Callable[[], None]  # called when no entry fits

    def write(self, key: str, content: bytes) -> None:
        """Store a new entry."""
        artifacts.record(artifacts.PLAN, key, content)
        self.files.write(key, content)

    def candidates(self, key: str) -> Iterator[tuple[object, bytes]]:
        """Readable entries whose guards hold, each with its bytes."""
        for content in _contents(self.files, key):
            try:
                entry = pickle.loads(content)
                if not isinstance(entry, BundledAOTAutogradResult):
                    raise pickle.UnpicklingError(f"it holds a {type(entry).__name__}")
            except Exception as error:
                _log.info("plan %s cannot be read, removed: %s", key, error)
                self.files.remove(key, content)
                continue
            if not allow(entry.compiled_fw.result.guards, self.numbers):
                continue
            artifacts.record(artifacts.PLAN, key, content)
            yield entry, content
        self.missed()


_session: ContextVar[Session | None] = ContextVar("ocl_inductor.warm_start", default=None)


@contextlib.contextmanager
def keeping_plans(
    gm: GraphModule,
    inputs: Sequence[object],
    device: Device,
    settings: Settings,
    *,
    wanted: bool = True,
) -> Iterator[Graphs]:
    """While a graph is captured, AOTAutograd looks for its plan first and stores a new one.

    ``wanted``: if off, it does neither. Yields the factory of graph compilers.
    """
    if not wanted:
        yield Graphs(stored=False)
        return
    reason = _why_off(gm, settings)
    if reason is not None:
        if settings.cache:
            count("plan_bypasses")
            _log.info("plan not kept: %s", reason)
        yield Graphs(stored=False)
        return
    _install()
    provide_digest(settings.cache_dir)
    key = plan_key(device.info.for_settings(settings), settings, shared_memory(inputs))
    files = PlanFiles(settings.cache_dir / "plans", settings.cache_size_limit)
    missed = partial(start_builders, device, settings, kernels=1)
    session = Session(device, settings, key, files, Graphs(stored=True), numbers_of(gm), missed)
    counters = torch._dynamo.utils.counters["aot_autograd"]
    bypasses = counters["autograd_cache_bypass"]
    token = _session.set(session)
    try:
        with storing_config(tag=f"ocl_inductor:{key}"):
            yield session.graphs
    finally:
        _session.reset(token)
        if counters["autograd_cache_bypass"] > bypasses:
            count("plan_bypasses")


def _why_off(gm: GraphModule, settings: Settings) -> str | None:
    """Why this graph's plan is neither looked up nor stored."""
    if not settings.cache:
        return "the cache is switched off"
    if not enabled("plan_cache"):
        return "the patch plan_cache is switched off"
    if UNAVAILABLE is not None:
        return f"this PyTorch has no such cache: {UNAVAILABLE}"
    if not should_use_local_autograd_cache():
        return "PyTorch's caches are switched off"
    if settings.debug_dir is not None or any(log.isEnabledFor(10) for log in _SHOWN_BY_COMPILING):
        return "compiling shows what was asked for"
    return why_not_storable(gm, check_node_safe)


def _serializable(function: GraphFunction) -> object:
    def compile_to_code(gm: GraphModule, inputs: Sequence[object]) -> StoredPlan:
        executor = function(gm, inputs)
        count("plan_misses")
        session = _session.get()
        assert session is not None
        return StoredPlan.of(executor, session)

    return SerializableAOTDispatchCompiler(StoredPlan, compile_to_code)


@dataclasses.dataclass(eq=False)
class StoredPlan(OutputCode):
    """A compiled graph as AOTAutograd's cache takes it: calls an executor, pickles as a plan."""

    key: str
    environment: str
    settings: Settings
    payload: bytes | None = None
    guards: str | None = None
    run: Callable[[list[Any]], tuple[Any, ...]] | None = None
    plan: Plan | StagedPlan | None = None
    making: Future[Executor] | None = None
    # In the instance, since function wrappers copy it from there.
    _boxed_call: bool = True

    @classmethod
    def of(cls, executor: Executor | StagedExecutor, session: Session) -> StoredPlan:
        environment = _environment(session.device, session.settings)
        return cls(session.key, environment, session.settings, run=executor, plan=executor.plan)

    def __setstate__(self, state: dict[str, object]) -> None:
        """Refuse unpickling where the plan does not match.

        Dynamo's own cache (TORCH_CACHING_PRECOMPILE) ignores devices and this package's versions.
        It treats an error here as a miss, but not one that comes later.
        """
        self.__dict__.update(state)
        if self.payload is not None and _session.get() is None:
            device = select_device(self.settings.device)
            if self.environment != _environment(device, self.settings):
                raise pickle.UnpicklingError(
                    "this plan of ocl_inductor is for another device, driver or version"
                )

    def __call__(self, inputs: list[object]) -> object:
        run = self.run
        if run is None:
            assert self.making is not None
            run = self.run = self.making.result()  # not cleared: other threads may be here, too
        return run(inputs)

    def prepare_for_serialization(self) -> None:
        """Called on a copy, which is then pickled."""
        assert self.plan is not None
        try:
            self.payload = dump_plan(self.plan)
        except PlanNotStorable as error:
            raise BypassAOTAutogradCache(f"plan not storable: {error}") from error
        session = _session.get()
        if session is not None:  # Dynamo's own cache stores all guards
            self.guards = guards_on(session.numbers)
        self.plan = self.run = self.making = None

    def post_compile(self, example_inputs: object, constants: object, graph_kwargs: object) -> None:
        """Called after unpickling: create the executor, while Dynamo continues with its guards."""
        session = _session.get()
        if session is None:  # Dynamo's own cache: see __setstate__
            device, settings = select_device(self.settings.device), self.settings
        else:
            if session.key != self.key:
                raise RuntimeError("this plan is for another device, or other settings")
            add_guards(self.guards, session.numbers)
            device, settings = session.device, session.settings
        assert self.payload is not None
        plan = load_plan(self.payload)
        self.payload = None
        _show(plan)
        self.making = make_in_background(partial(Executor, plan, device, settings))
        if session is None:  # an error has to come from here
            self.making.result()
        else:
            session.graphs.note(self)
        count_plan(plan)
        count("plan_hits")


def _environment(device: Device, settings: Settings) -> str:
    return environment_key(device.info.for_settings(settings), settings)


def _show(plan: Plan) -> None:
    """Log what compilation would have logged."""
    for kernel in plan.kernels:
        _code_log.debug("// FX nodes: %s\n%s", ", ".join(kernel.fx_nodes), kernel.source)
    trace_kernels(plan)
    for step in host_calls(plan):
        if step.fallback:
            say_fallback(step.label, step.reason)


def _contents(files: PlanFiles, key: str) -> Iterator[bytes]:
    """From the folder, then from artefacts that were loaded into this process."""
    known = set()
    for content in files.read(key):
        known.add(content)
        yield content
    for content in artifacts.loaded(artifacts.PLAN, key):
        if content not in known:
            files.write(key, content)
            yield content


def _install() -> None:
    """Redirect the cache's files to our folder during a session; other backends see no change."""
    redirect(AOTAutogradCache, _session.get)
    name_constants(AOTAutogradCachePickler, _compiles_here)
    leave_out(_compiles_here)


def _compiles_here() -> bool:
    return _session.get() is not None
