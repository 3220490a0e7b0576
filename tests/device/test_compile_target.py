"""Code for processors that this one is not: OCL_INDUCTOR_CPU_TARGET, and what is asked."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from agreement import two_drivers

from ocl_inductor.device import quirks
from ocl_inductor.device.cpu.flags import cpu_flags
from ocl_inductor.device.select import list_devices

LANES = {"avx512": 16, "avx2": 8, "avx": 8, "sse4.2": 4}
HERE = [t for t, flags in quirks.CPU_TARGETS.items() if flags <= cpu_flags()]
TOLD = [d.short_name for d in list_devices() if quirks.cpu_targets(d.names) is not None]
WIDTH = """
import json, sys
from ocl_inductor.device.select import select_device
info = select_device(sys.argv[1]).info
print(json.dumps([info.vector_width, info.target_fma, info.key]))
"""
MODEL = """
import sys, torch
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.GELU(), torch.nn.Conv2d(32, 32, 3, padding=1),
    torch.nn.Flatten(), torch.nn.Linear(32 * 64, 33), torch.nn.LayerNorm(33), torch.nn.Softmax(-1),
)
x = torch.randn(2, 3, 8, 8)
compiled = torch.compile(net, backend="opencl", options={"device": sys.argv[1]})
for model in (compiled, net):
    net.zero_grad()
    y = model(x)
    y.square().sum().backward()
    if model is compiled:
        got = [y, *(p.grad for p in net.parameters())]
for a, b in zip(got, [y, *(p.grad for p in net.parameters())], strict=True):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
"""


def run(code: str, driver: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, driver], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("driver", TOLD)
def test_the_compiler_says_what_it_was_told(driver: str, clean_env: dict[str, str]) -> None:
    """Each target's answer is kept for itself."""
    found = {}
    for target in (*HERE, HERE[0]):  # the first once more
        env = {**clean_env, "OCL_INDUCTOR_CPU_TARGET": target}
        width, fma, key = json.loads(run(WIDTH, driver, env).splitlines()[-1])
        # PoCL's library stays the processor's own: there vectors of 64-bit numbers have to fit.
        lanes = LANES[target] // (1 + ("pocl" in driver and LANES[target] < LANES[HERE[0]]))
        assert (width, fma) == (lanes, target in ("avx512", "avx2"))
        assert found.setdefault(target, key) == key
    assert len(set(found.values())) == len(HERE)


OLDER = [t for t in ("avx2", "sse4.2") if t in HERE]


@pytest.mark.parametrize(("driver", "target"), list(zip(two_drivers(), OLDER, strict=False)))
def test_a_model_on_an_older_processor(driver: str, target: str, clean_env: dict[str, str]) -> None:
    run(MODEL, driver, {**clean_env, "OCL_INDUCTOR_CPU_TARGET": target})


def test_an_unknown_target_is_refused(clean_env: dict[str, str]) -> None:
    env = {**clean_env, "OCL_INDUCTOR_CPU_TARGET": "avx3"}
    done = subprocess.run(
        [sys.executable, "-c", WIDTH, "cpu"], env=env, capture_output=True, text=True
    )
    assert "UnknownOptionError" in done.stderr and "sse4.2" in done.stderr
