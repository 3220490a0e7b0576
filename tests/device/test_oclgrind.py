"""Generated kernels and every template under the simulator that checks each memory access.

It interprets kernels, so shapes are tiny. Both profiles run; scratch and results live in buffers of
their exact size, so a read or write one element beyond is seen.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import torch
from torch.nn import functional as F

import ocl_inductor.device.facts

profile = {profile!r}
# The simulator says that it has no vectors; the code to check is the one of CPUs.
ocl_inductor.device.facts._vector_width = lambda profile, native: 8 if profile == "vector" else 1
torch.manual_seed(0)
lin, conv = torch.nn.Linear(19, 37), torch.nn.Conv2d(3, 5, 3, stride=2, padding=1)
grouped, up = torch.nn.Conv2d(8, 8, 3, groups=2, padding=1), torch.nn.ConvTranspose2d(4, 6, 3, 2)
wide = torch.nn.Conv2d(20, 33, 3, padding=1)
three = torch.nn.Conv2d(32, 32, 3, padding=1)
deep = torch.nn.Conv2d(16, 16, 3, 2, padding=1, groups=16)
r = torch.randn
index = torch.randint(0, 6, (9,))
programs = [
    (lambda x, y: torch.sigmoid(x * y) + x[:, :1], (r(7, 33), r(7, 33))),
    (lambda x: x.softmax(-1), (r(5, 41),)),
    (lambda x: F.layer_norm(x, (23,)), (r(3, 23),)),
    (lambda x: (x.sum(0), x.amax(1), x.argmax(1)), (r(17, 19),)),
    (lambda x: F.gelu(lin(x)), (r(7, 19),)),
    (lambda x, y: x @ y.transpose(1, 2), (r(2, 9, 17), r(2, 5, 17))),
    (lambda x: F.relu(conv(x)) + 1, (r(2, 3, 9, 7),)),
    (lambda x: wide(x), (r(1, 20, 5, 5),)),
    (lambda x: grouped(x), (r(1, 8, 6, 5),)),
    (lambda x: up(x), (r(1, 4, 3, 4),)),
    (lambda x: deep(x), (r(2, 16, 5, 7),)),
    (lambda x: three(x), (r(1, 32, 9, 11),)),
    (lambda x: F.max_pool2d(x, 3, 2, 1), (r(1, 3, 8, 9),)),
    (lambda x: F.pad(x, (1, 2, 0, 1)) * 2, (r(1, 3, 8, 9),)),
    (lambda x: torch.cat([x, x * 2, x.flip(1)], 1)[:, ::2], (r(3, 7),)),
    (lambda x: F.embedding(index, x).cumsum(0), (r(6, 11),)),
    (lambda x, s: x.index_add(0, index, s), (r(6, 11), r(9, 11))),
    (lambda x: (x.half() * 2).float().t().contiguous(), (r(5, 21),)),
    (lambda x: x.abs(), (torch.arange(-9, 12).short(),)),
]
if profile == "simt":
    # The simulator (21.10) takes a true lane of a comparison of long16 as 255 in a subtraction, so
    # that ranks, by which the vector profile sorts, leave their arrays.
    programs += [
        (lambda x: x.sort(-1), (r(3, 37),)),
        (lambda x: x.sort(-1), (r(1, 1500),)),
        (lambda x: x.topk(5, -1), (r(3, 90),)),
        (lambda x: (x.sum(0), x.softmax(0), x.argmax(0), x.cumsum(1), x.cummax(0)), (r(70, 36),)),
        (lambda x: (x * 2 + 1, x.sum(), x.cumsum(0), x.logsumexp(0)), (r(8203),)),
        (lambda x: x.t().contiguous() * 2, (r(129, 131),)),
        (lambda z: torch.fft.fft(z), (r(3, 20, dtype=torch.complex64),)),
        (lambda x: torch.fft.rfft(x, dim=0), (r(48, 5),)),
        (lambda z: torch.fft.irfft(z, n=350), (r(2, 176, dtype=torch.complex64),)),
        (lambda x: x.var((0, 2, 3)), (r(3, 8, 30, 8).to(memory_format=torch.channels_last),)),
    ]
for number, (function, inputs) in enumerate(programs):
    torch.compiler.reset()
    # One thread: the simulator's compiler is not safe in several.
    options = dict(
        device="oclgrind",
        profile=profile,
        fallback="error",
        cache=False,
        compile_threads=1,
    )
    with torch.no_grad():
        got = torch.compile(function, backend="opencl", options=options)(*inputs)
        want = function(*inputs)
    pairs = zip(got, want) if isinstance(want, (tuple, list)) else [(got, want)]
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    print("ran", number, flush=True)
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("profile", ["vector", "simt"])
def test_no_invalid_access_and_no_race(oclgrind_env: dict[str, str], profile: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(profile=profile)],
        env=oclgrind_env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-40:] + done.stderr[-3000:]
    assert done.stdout.count("ran") == (29 if profile == "simt" else 19)
    for complaint in ("Invalid read", "Invalid write", "data race", "Uninitialized"):
        assert complaint not in done.stderr, done.stderr[:3000]
