"""Plans and kernels as part of ``torch.compiler.save_cache_artifacts()``.

PyTorch must know our kinds of artefact before ``load_cache_artifacts()`` meets one, so this module
is imported at the end of ``import torch``: it imports nothing heavy until artefacts are loaded.
"""

from __future__ import annotations

import threading

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

KERNEL = "opencl_kernel"
PLAN = "opencl_plan"

# Artefacts loaded into this process, for compilations that use another folder than the default.
_loaded: dict[tuple[str, str], list[bytes]] = {}
_lock = threading.Lock()


class KernelArtifact(CacheArtifact):
    """One kernel: the bytes of its entry in the store, which are verified when read."""

    @staticmethod
    def type() -> str:
        return KERNEL

    def populate_cache(self) -> None:
        from ocl_inductor.runtime.store.entry import DamagedEntryError
        from ocl_inductor.runtime.store.kernel_store import KernelStore
        from ocl_inductor.settings import default_cache_dir

        try:
            KernelStore(default_cache_dir() / "kernels").write_bytes(self.key, self.content)
        except DamagedEntryError:  # of another version of this package, so it is never requested
            return
        _remember(KERNEL, self.key, self.content)


class PlanArtifact(CacheArtifact):
    """One compiled graph, as ``PlanFiles`` keeps it."""

    @staticmethod
    def type() -> str:
        return PLAN

    def populate_cache(self) -> None:
        from ocl_inductor.runtime.store.plan_files import PlanFiles
        from ocl_inductor.settings import default_cache_dir

        PlanFiles(default_cache_dir() / "plans").write(self.key, self.content)
        _remember(PLAN, self.key, self.content)


def register() -> None:
    """Make the two kinds known to PyTorch. Idempotent."""
    for kind in (KernelArtifact, PlanArtifact):
        if kind.type() not in CacheArtifactFactory._artifact_types:
            CacheArtifactFactory.register(kind)


def record(kind: str, key: str, content: bytes) -> None:
    """Note that this process used an entry, for ``save_cache_artifacts()``."""
    with _lock:  # PyTorch relies on its compile lock; kernels are built in threads
        CacheArtifactManager.record_artifact(kind, key, content)


def loaded(kind: str, key: str) -> list[bytes]:
    """The contents that ``load_cache_artifacts()`` loaded under a key."""
    with _lock:
        return list(_loaded.get((kind, key), ()))


def _remember(kind: str, key: str, content: bytes) -> None:
    with _lock:
        contents = _loaded.setdefault((kind, key), [])
        if content not in contents:
            contents.append(content)


register()
