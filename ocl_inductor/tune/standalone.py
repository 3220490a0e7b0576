"""One template as a kernel of its own: plain buffers in its holes, with or without an epilogue.

For tests of templates, and for trying their candidates on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from ocl_inductor.codegen.template_kernel import template_code
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClEvent, ClMemory
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.params import bytes_of
from ocl_inductor.plan.kernel_code import KernelParameter
from ocl_inductor.plan.one_item import for_one_item
from ocl_inductor.templates.render import render
from ocl_inductor.templates.spec import P, TemplateSpec

#: What the kernel is called.
NAME = "standalone"

Epilogue = Callable[[str, Sequence[str], int], str]


def _size(x: object) -> str:
    return f"(long)({sympy.sympify(x)})" if not isinstance(x, int) else f"{x}L"


def row_major(coordinates: Sequence[str], sizes: Sequence[object]) -> str:
    text = "0"
    for c, s in zip(coordinates, sizes, strict=True):
        text = f"(({text}) * {_size(s)} + {c})"
    return text


class StandaloneKernel:
    """A rendered and built template; call it with numpy operands, get the result.

    ``symbols`` gives values to the size symbols in ``params``. ``epilogue(value, coordinates,
    width)`` returns the C expression to be stored; ``extras`` are float buffers it may read.
    """

    def __init__(
        self,
        device: Device,
        profile: str,
        spec: TemplateSpec[P],
        params: P,
        operands: int = 2,
        epilogue: Epilogue | None = None,
        extras: Sequence[np.ndarray] = (),
        symbols: Mapping[str, int] | None = None,
        facts: DeviceInfo | None = None,
    ) -> None:
        cl = load_pyopencl()
        self.cl, self.device = cl, device
        self.acc = params.acc
        self.dtype = np.float64 if self.acc == "double" else np.float32
        self.symbols = dict(symbols or {})
        tile = spec.tile(facts or device.info, profile, params)  # type: ignore[arg-type]
        self.tile = tile
        space = spec.out_space(params)
        read = f"__global const {self.acc} *"
        parameters = [KernelParameter(read, f"in{i}") for i in range(operands)]
        parameters += [KernelParameter(read, f"extra{i}") for i in range(len(extras))]
        parameters += [KernelParameter(f"__global {self.acc} *", "result")]
        parameters += [KernelParameter("long ", s) for s in self.symbols]

        def store(coordinates: Sequence[str], value: str, width: int = 1) -> str:
            if epilogue is not None:
                value = epilogue(value, coordinates, width)
            index = row_major(coordinates, space)
            if width == 1:
                return f"result[{index}] = {value};"
            name, at_any = f"{self.acc}{width}", f"aligned({bytes_of(self.acc)})"
            vector = f"typedef {name} part_u __attribute__(({at_any}));"
            return f"{{ {vector} *(__global part_u *)(result + {index}) = {value}; }}"

        def touch(coordinates: Sequence[str]) -> str:
            at = row_major([f"({c})" for c in coordinates], space)
            return f"__builtin_prefetch((const void *)(ulong)(result + {at}), 1);"

        def load(operand: int, index: str, width: int = 1) -> str:
            if width == 1:
                return f"in{operand}[{index}]"
            return f"*(__global const vec_u *)(in{operand} + {index})"

        rendered = render(
            spec,
            params,
            tile,
            {
                "size": _size,
                "load": load,
                "pointer": lambda i: f"in{i}",
                "store": store,
                "touch": touch,
                "result": "result",
            },
        )
        launch = spec.launch(params, tile)
        dimensions = len(launch.global_size)
        code = template_code(NAME, rendered, parameters, dimensions, device.info)
        self.source = for_one_item(
            code, device.info.one_lane_attribute, device.info.outlined_vector_bits
        ).text
        options = list(device.info.build_options)
        self.program = cl.Program(device.context, self.source).build(options, cache_dir=False)
        self.kernel = cl.Kernel(self.program, NAME)
        self.shape = tuple(self._value(s) for s in space)
        self.grid = tuple(self._value(s) for s in launch.global_size)
        self.local = launch.local_size
        self.extras = [self.buffer(e.astype(self.dtype)) for e in extras]

    def _value(self, size: Any) -> int:
        size = sympy.sympify(size)
        return int(
            size.xreplace({s: sympy.Integer(self.symbols[s.name]) for s in size.free_symbols})
        )

    def buffer(self, array: np.ndarray) -> ClMemory:
        flags = self.cl.mem_flags
        array = np.ascontiguousarray(array)
        return self.cl.Buffer(
            self.device.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array
        )

    def bind(self, *arrays: np.ndarray) -> None:
        """Upload the operands and a result full of NaN."""
        self.inputs = [self.buffer(a.astype(self.dtype)) for a in arrays]
        self.result = self.buffer(np.full(self.shape, np.nan, self.dtype))
        sizes = [np.int64(v) for v in self.symbols.values()]
        self.kernel.set_args(*self.inputs, *self.extras, self.result, *sizes)

    def launch(self, queue: object = None) -> ClEvent:
        """Enqueue it once on ``queue``, the device's by default; the event of it."""
        queue = queue or self.device.queue
        return self.cl.enqueue_nd_range_kernel(queue, self.kernel, self.grid, self.local)

    def fetch(self) -> np.ndarray:
        """The result of all launches so far."""
        out = np.empty(self.shape, self.dtype)
        self.device.queue.finish()
        self.cl.enqueue_copy(self.device.queue, out, self.result)
        return out

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        self.bind(*arrays)
        self.launch()
        return self.fetch()
