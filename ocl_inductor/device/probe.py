"""Self-tests of features that a driver reports: run once for each driver, in a child process
(probe_process.py), and cached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from ocl_inductor.device.builtin_check import Builds, failing
from ocl_inductor.device.cpu.compile_target import CompileTarget
from ocl_inductor.device.cpu.dot_products import DotName
from ocl_inductor.device.quirks import Names
from ocl_inductor.device.zero_copy import zero_copy_test
from ocl_inductor.log import logger
from ocl_inductor.settings import default_cache_dir
from ocl_inductor.support import child_process, json_cache
from ocl_inductor.support.private_folder import PrivateFolder

_log = logger(__name__)
#: The only driver to open and further variables: see ``Device.child_environment``.
ChildEnvironment: TypeAlias = tuple[str, Mapping[str, str]]

_SCHEMA = 3
_SECONDS = 120
#: Printed on a separate line before the answer of a process.
MARK = "ocl_inductor answers"


def zero_copy_works(
    key: str,
    handles: Callable[[], tuple[object, object]],
    names: Names | None = None,
    tester: Callable[[], bool] | None = None,
) -> bool:
    """The cached answer for the driver `key`, or that of a test run now.

    `handles` makes the pyopencl context and queue; it is called only when the test runs. With
    `names` the test runs in another process, which loads the driver's compiler and may crash, on
    the device that has these names; `tester` asks an existing one, or raises. Never raises: a
    driver that fails the test, in whatever way, does not work in place.
    """
    return _answered(
        "zero_copy",
        key,
        lambda: (
            zero_copy_test(*handles()) if names is None else _tested("zero_copy", names, tester)
        ),
    )


def target_of(
    key: str, names: Names, tester: Callable[[], CompileTarget | None] | None = None
) -> CompileTarget | None:
    """The target of the driver's compiler: cached, or queried in another process.

    Arguments as of ``zero_copy_works``. None where the compiler does not tell. Never raises.
    """
    known = _kept("target", key)
    if isinstance(known, dict):
        return _target(known)
    try:
        target = _asked_target(names, tester)
    except Exception as error:
        _log.info("the compiler of %s was not asked for its target: %s", key, error)
        target = None
    _keep("target", key, {} if target is None else asdict(target))
    return target


def _asked_target(
    names: Names, tester: Callable[[], CompileTarget | None] | None
) -> CompileTarget | None:
    if tester is not None:
        try:
            return tester()
        except Exception as error:
            _log.info("%s was not asked in a process that was there: %s", names.name, error)
    return _target(_ask_child("target", names)["target"])


def _target(facts: dict[str, Any]) -> CompileTarget | None:
    return CompileTarget(int(facts["lanes"]), bool(facts["fma"])) if facts else None


def broken_builtins_of(key: str) -> frozenset[str]:
    """Vector functions on which the driver's compiler fails, as far as it was tested."""
    known = _kept("broken_builtins", key)
    return frozenset(map(str, known)) if isinstance(known, list) else frozenset()


def check_builtins(key: str, lanes: int, builds: Builds) -> frozenset[str]:
    """The same, tested once by building them all; ``builds``: see ``builtin_check``."""
    known = _kept("broken_builtins", key)
    if isinstance(known, list):
        return frozenset(map(str, known))
    found = failing(builds, lanes)
    _keep("broken_builtins", key, sorted(found))
    return found


def command_buffers_work(key: str, names: Names) -> bool:
    """Whether recorded launches give the results of plain ones: cached, or tested in a process.

    ``key``: the driver; ``names``: the device's. Never raises, as ``zero_copy_works``.
    """
    return _answered("command_buffer", key, lambda: _tested_in_child("command_buffer", names))


def amx_works(key: str, names: Names) -> bool:
    """Whether kernels can use the CPU's matrix unit: cached, or tested in a process.

    Arguments as of ``command_buffers_work``. Never raises.
    """
    return _answered("amx", key, lambda: _tested_in_child("amx", names))


def dot_works(
    name: DotName, key: str, names: Names, tester: Callable[[], bool] | None = None
) -> bool:
    """Whether kernels can use an instruction of the CPU's for dot products: cached, or tested in a
    process.

    Arguments as of ``zero_copy_works``. Never raises.
    """
    return _answered(name, key, lambda: _tested(name, names, tester))


def mma_works(key: str, names: Names) -> bool:
    """Whether kernels can use a GPU's matrix instructions: cached, or tested in a process.

    Arguments as of ``command_buffers_work``. Never raises.
    """
    return _answered("mma", key, lambda: _tested_in_child("mma", names))


def calling_thread_works(key: str, names: Names) -> bool:
    """Whether a queue of the device runs kernels in the calling thread: cached, or tested in a
    process. Never raises.
    """
    return _answered("calling_thread", key, lambda: _tested_in_child("calling_thread", names))


def inline_device_works(
    key: str,
    names: Names,
    child_environment: ChildEnvironment,
    tester: Callable[[], bool] | None = None,
) -> bool:
    """The same for a device that runs all kernels so, listed when its variables are set.

    ``child_environment``: see ``Device.child_environment``.
    """
    return _answered(
        "calling_thread", key, lambda: _tested("calling_thread", names, tester, *child_environment)
    )


def _tested(
    question: str, names: Names, tester: Callable[[], bool] | None, *child_environment: Any
) -> bool:
    try:
        if tester is not None:
            return tester()
    except Exception as error:
        _log.info("self-test of %s in a process that was there: %s", names.name, error)
    return _tested_in_child(question, names, *child_environment)


def _answered(question: str, key: str, test: Callable[[], bool]) -> bool:
    known = _remembered(question, key)
    if known is not None:
        return known
    try:
        works = test()
    except Exception as error:
        _log.info("self-test %s failed on %s: %s", question, key, error)
        works = False
    _keep(question, key, works)
    return works


def _remembered(question: str, key: str) -> bool | None:
    known = _kept(question, key)
    return known if isinstance(known, bool) else None


def _tested_in_child(
    question: str, names: Names, library: str = "", variables: Mapping[str, str] | None = None
) -> bool:
    return bool(_ask_child(question, names, library, variables)[question])


def _ask_child(
    question: str, names: Names, library: str = "", variables: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The answer of a child process to the question.

    ``library``, ``variables``: see ``Device.child_environment``. Raises RuntimeError where
    there is none.
    """
    done = child_process.answer(
        "ocl_inductor.device.probe_process",
        question,
        json.dumps(asdict(names)),
        library,
        seconds=_SECONDS,
        variables=variables,
    )
    for line in done.stdout.splitlines():  # drivers print to standard output too
        mark, _, text = line.partition(": ")
        if mark == MARK:
            return dict(json.loads(text))
    raise RuntimeError(f"the test ended with {done.how}: {done.stderr[-500:]}")


def _folder() -> PrivateFolder:
    return PrivateFolder(default_cache_dir()).folder("probe")


def _kept(question: str, key: str) -> object:
    return json_cache.load(_folder(), f"{_SCHEMA}\n{question}\n{key}")


def _keep(question: str, key: str, value: object) -> None:
    json_cache.save(_folder(), f"{_SCHEMA}\n{question}\n{key}", value)
