"""What a call that finds its parameters unchanged relies on: the state of the last one.

A call that binds everything (executor.py) begins with ``disarm`` and ends with ``learn``, both with
the executor's lock held. After it the generated function (launcher.py.jinja) compares, and binds
only what moved.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ocl_inductor.plan.plan import Plan
from ocl_inductor.runtime.call.fast_path import FastPath
from ocl_inductor.runtime.memory.recycling import Maker
from ocl_inductor.runtime.parameters.parameters import Parameters


class Guards:
    """Keeps the state of one plan's calls in the global names of its generated function, which so
    reads it without an object in between:

    - ``armed``: whether the rest holds;
    - ``places``: the identity and the address of each parameter;
    - ``versions``: of those that the plan keeps copies of. A training step writes them all, so the
      function runs the prologue then, and replaces this;
    - ``storage_n``: of the same, a weak reference to the storage, whose address may be reused;
    - ``changed``, ``forget``: of their watch;
    - ``make_n``: makes an output;
    - ``bound``: the version of the scratch memory that kernels point to.
    """

    def __init__(
        self, plan: Plan, fast_path: FastPath, parameters: Parameters, own: Mapping[str, Maker]
    ) -> None:
        """``own``: the makers of the outputs, in their order."""
        self.fast_path, self.parameters, self.own = fast_path, parameters, own
        self.input_names = [s.name for s in plan.inputs]
        #: Positions of the parameters that the plan keeps copies of.
        self.copied = tuple(
            n for n in fast_path.parameters if self.input_names[n] in parameters.copied
        )
        #: By output. Calls that bind everything make their results with them, too.
        self.makers: Mapping[str, Maker] = own
        self.names: dict[str, Any] = {"armed": False, "bound": None}
        self.make_with({})

    def make_with(self, makers: Mapping[str, Maker]) -> None:
        """From now on, make these outputs so, and the others as ever."""
        self.makers = {**self.own, **makers}
        self.names |= {f"make_{n}": maker.make for n, maker in enumerate(self.makers.values())}

    def scratch_at(self, version: int | None) -> None:
        """Kernels point to scratch memory of this version; None: to none that is known."""
        self.names["bound"] = version

    def disarm(self) -> None:
        """Bind everything at the next call."""
        self.names["armed"] = False

    def learn(self, inputs: Sequence[torch.Tensor]) -> None:
        """Record the state after a call that has bound everything."""
        present = [inputs[n] for n in self.fast_path.parameters]
        copied = [inputs[n] for n in self.copied]
        versions = tuple(
            self.parameters.version(self.input_names[n], inputs[n]) for n in self.copied
        )
        if -1 in versions:  # unknown: it may have been written at any time
            return
        watch = self.parameters.watch
        self.names |= {
            "places": tuple(n for x in present for n in (id(x), x.data_ptr())),
            "versions": versions,
            "changed": watch.changed,
            "forget": watch.forget,
        }
        for n, x in zip(self.copied, copied, strict=True):
            self.names[f"storage_{n}"] = weakref.ref(x.untyped_storage())
        for argument in self.fast_path.arguments:
            argument.pointer = -1  # kernels point to another window onto the same memory
        self.names["armed"] = True
