"""Fourier transforms and what audio models make of them, as kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, compiled, poisoned_memory, two_drivers, with_gradients
from agreement import random as numbers
from torch import Tensor
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode

each_driver = pytest.mark.parametrize("driver", two_drivers())
everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


def complexes(*size: int) -> Tensor:
    return torch.randn(size, dtype=torch.complex64)


@functools.cache
def _knows_strides() -> bool:
    """Whether this PyTorch traces transforms of real numbers to eager's strides: 2.11 does not."""
    x = torch.randn(2, 3, 4)
    with FakeTensorMode() as mode:
        traced = torch.fft.fft(mode.from_tensor(x), dim=1).stride()
    return bool(traced == torch.fft.fft(x, dim=1).stride())


def _is_near(
    fn: Callable[..., Any],
    *inputs: Tensor,
    fallbacks: int = 0,
    most: float = 4e-6,
    **options: Any,
) -> None:
    """Against float64: the error of a transform grows with the logarithm of its length, that of the
    products it is made of here with the square root of theirs."""
    counters.clear()
    with poisoned_memory():
        results = compiled(fn, **options)(*inputs)
    wide = [x.to(torch.complex128 if x.is_complex() else torch.float64) for x in inputs]
    for mine, eager, best in zip(results, fn(*inputs), fn(*wide), strict=True):
        assert (mine.dtype, mine.shape) == (eager.dtype, eager.shape)
        assert mine.stride() == eager.stride() or not _knows_strides()
        if not best.numel():
            continue
        error = float((mine.to(best.dtype) - best).abs().max())
        scale = float(best.abs().square().mean().sqrt())
        assert error <= most * scale, (error, scale)
    assert counters["opencl"]["fallbacks"] == fallbacks


#: Products, also of a prime number of points; splits in two, three and four.
LENGTHS = (1, 2, 7, 64, 97, 100, 400, 1024, 4096, 16384)


@pytest.mark.parametrize(
    ("driver", "profile", "n"),
    [
        (driver, profile, n)
        for driver in two_drivers()
        for profile, lengths in (("vector", LENGTHS), ("simt", (7, 400, 1024)))
        for n in lengths
    ],
)
def test_lengths(n: int, driver: str, profile: str) -> None:
    def program(z: Tensor, half: Tensor) -> Any:
        return (
            torch.fft.fft(z), torch.fft.ifft(z), torch.fft.rfft(z.real),
            torch.fft.irfft(half, n=n),
        )  # fmt: skip

    given = complexes(3, n), complexes(3, n // 2 + 1)
    # The longest one is a product of a product: up to 3.4e-6 in 30 draws.
    _is_near(program, *given, most=6e-6 if n > 4096 else 4e-6, device=driver, profile=profile)


@each_driver
@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
def test_norms_and_dimensions(norm: str, driver: str) -> None:
    def program(z: Tensor, x: Tensor) -> Any:
        fft = torch.fft
        return (
            fft.fft(z, norm=norm), fft.ifft(z, dim=0, norm=norm), fft.fft(x, dim=1, norm=norm),
            fft.fft2(z, norm=norm), fft.ifftn(z, norm=norm), fft.rfft2(x, norm=norm),
            fft.rfftn(x, dim=(2, 0), norm=norm), fft.irfftn(z, norm=norm),
            fft.irfft2(z, s=(6, 13), norm=norm), fft.hfft(z, norm=norm), fft.ihfft(x, norm=norm),
            fft.fft(z, n=20, norm=norm), fft.fftshift(fft.fft(z.conj(), norm=norm)),
        )  # fmt: skip

    _is_near(program, complexes(4, 6, 10), numbers(4, 6, 10), device=driver)


@each_driver
def test_double_precision(driver: str) -> None:
    z = torch.randn(3, 400, dtype=torch.complex128)
    agree(torch.fft.fft, z, device=driver, rtol=1e-12, atol=1e-12)


@each_driver
def test_a_symbolic_number_of_rows(driver: str) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.fft.rfft(x).abs()

    function = compiled(program, driver, dynamic=None)
    for rows in (3, 5):
        x = numbers(rows, 400)
        torch._dynamo.mark_dynamic(x, 0)
        agree(program, x, device=driver, compiled_fn=function, rtol=1e-5, atol=1e-4)


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_large_primes_run_on_the_host(driver: str) -> None:
    _is_near(lambda z: (torch.fft.fft(z * 2) + 1,), complexes(3, 1009), device=driver, fallbacks=1)


@pytest.mark.parametrize("driver", two_drivers("cpu"))
@pytest.mark.parametrize(("n", "kernels"), [(64, 1), (400, 5), (4096, 5)])
def test_number_of_kernels(n: int, kernels: int, driver: str, unchained: None) -> None:
    """A product; or the input in columns, a product, factors and columns, a product, the result."""
    counters.clear()
    z = complexes(3, n)
    agree(torch.fft.fft, z, device=driver, rtol=1e-4, atol=1e-3, reference=False)
    assert counters["opencl"]["kernels"] == kernels


# -- one kernel: the GPU profile -----------------------------------------------------------

#: Powers of two and of ten, each prime factor that the kernel takes, stages that do not come out
#: even, one stage, and a row that leaves little of the least device's local memory.
ONE_KERNEL = (2, 3, 5, 13, 16, 30, 64, 77, 143, 256, 400, 1000, 1024, 1296)


def _rounding(n: int) -> float:
    """Of one transform: 2e-7 for each halving of its length; products have up to 4e-6."""
    return 2e-7 * (1 + math.log2(n))


@each_driver
@pytest.mark.parametrize("n", ONE_KERNEL)
def test_one_kernel(n: int, driver: str, unchained: None) -> None:
    """Rows that do not fill the last group, of each kind of points, along each dimension."""

    def program(z: Tensor, half: Tensor, turned: Tensor, bent: Tensor) -> Any:
        return (
            torch.fft.fft(z), torch.fft.ifft(z, norm="ortho"), torch.fft.rfft(z.real),
            torch.fft.irfft(half, n=n), torch.fft.fft(turned, dim=1),
            torch.fft.rfft(turned.real, dim=1), torch.fft.ifft(bent[:, 1::2].conj()),
        )  # fmt: skip

    given = complexes(11, n), complexes(7, n // 2 + 1), complexes(2, n, 5), complexes(3, 7, n)
    options: dict[str, Any]
    for options in ({"profile": "simt"}, {"target": "least"}):
        torch.compiler.reset()
        _is_near(program, *given, most=_rounding(n), device=driver, **options)
        if _knows_strides():  # others take a copy more
            assert counters["opencl"]["kernels"] == len(program(*given))


@each_driver
def test_one_kernel_in_double_precision(driver: str) -> None:
    def program(z: Tensor) -> Any:
        return torch.fft.fft(z), torch.fft.rfft(z.real), torch.fft.irfft(z[:, :201])

    counters.clear()
    z = torch.randn(3, 400, dtype=torch.complex128)
    agree(program, z, device=driver, profile="simt", rtol=1e-13, atol=1e-12)
    assert counters["opencl"]["kernels"] == 3


@each_driver
def test_one_kernel_a_dimension(driver: str, unchained: None) -> None:
    def program(z: Tensor, x: Tensor) -> Any:
        return torch.fft.fft2(z), torch.fft.ifftn(z, norm="ortho"), torch.fft.rfftn(x, dim=(2, 0))

    given = complexes(2, 30, 9), numbers(20, 3, 36)
    _is_near(program, *given, most=_rounding(720), device=driver, profile="simt")
    if _knows_strides():  # others take a copy more
        assert counters["opencl"]["kernels"] == 2 + 3 + 2


@each_driver
def test_the_spectrum_of_real_numbers_is_real_at_its_ends(driver: str) -> None:
    """As in eager: the angle of a negative number is pi, and -pi with an error below it."""
    for n in (30, 35, 400):
        torch.compiler.reset()
        found = compiled(torch.fft.rfft, driver, profile="simt")(numbers(5, n))
        for place in (0, n // 2) if n % 2 == 0 else (0,):
            assert torch.equal(found.imag[:, place], torch.zeros(5))
            assert not found.imag[:, place].signbit().any()


@each_driver
def test_imaginary_ends_of_a_half_do_not_count(driver: str) -> None:
    half = complexes(3, 51)
    half.imag[:, [0, 50]] = 1e12
    function = compiled(torch.fft.irfft, driver, profile="simt")
    want = torch.fft.irfft(half.to(torch.complex128))
    assert float((function(half) - want).abs().max()) <= _rounding(100)


# -- audio ---------------------------------------------------------------------------------

#: Whisper's, and of a split transform.
SETTINGS = [(400, 160), (1024, 256)]


@each_driver
@pytest.mark.parametrize(("n", "hop"), SETTINGS)
def test_spectrogram(n: int, hop: int, driver: str) -> None:
    """As Whisper's: the squares of magnitudes, on the mel scale, as logarithms."""
    filters, window = torch.rand(n // 2 + 1, 80) + 0.01, torch.hann_window(n)

    def program(x: Tensor, filters: Tensor, window: Tensor) -> Any:
        spectrum = torch.stft(x, n, hop, window=window, return_complex=True)
        power = spectrum[..., :-1].abs() ** 2
        return spectrum, torch.log10((power.mT @ filters).clamp(min=1e-10))

    _is_near(program, numbers(2, 8000), filters, window, device=driver)


@each_driver
@pytest.mark.parametrize(("n", "hop"), SETTINGS)
def test_there_and_back(n: int, hop: int, driver: str) -> None:
    def program(x: Tensor, window: Tensor) -> Any:
        spectrum = torch.stft(x, n, hop, window=window, return_complex=True)
        return (torch.istft(spectrum * 2, n, hop, window=window, length=x.shape[-1]),)

    # Two products of up to 512 points: 2.0e-6 to 3.9e-6 in 60 draws of 400 points.
    _is_near(program, numbers(2, 8192), torch.hann_window(n), most=8e-6, device=driver)


@each_driver
def test_convolution_by_spectra(driver: str) -> None:
    """As long convolutions of state-space models."""

    def program(x: Tensor, k: Tensor) -> Any:
        n = 2 * x.shape[-1]
        spectrum = torch.fft.rfft(x, n=n) * torch.fft.rfft(k, n=n)
        return (torch.fft.irfft(spectrum, n=n)[..., : x.shape[-1]],)

    _is_near(program, numbers(2, 16, 512), numbers(16, 512), device=driver)


def _spectrum(x: Tensor) -> Tensor:
    window = torch.hann_window(64, dtype=x.dtype)
    return torch.stft(x, 64, 16, window=window, return_complex=True).abs().square()


def _convolved(x: Tensor, k: Tensor) -> Tensor:
    return torch.fft.irfft(torch.fft.rfft(x, n=64) * torch.fft.rfft(k, n=64), n=64)[..., :32]


def _inverse(z: Tensor) -> Tensor:
    return torch.istft(z, 64, 16, window=torch.hann_window(64, dtype=z.real.dtype))


GRADIENTS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "spectrum": (_spectrum, (numbers(2, 800),)),
    "convolution": (_convolved, (numbers(2, 16, 32), numbers(16, 32))),
    "inverse": (_inverse, (complexes(2, 33, 20),)),
    "two dimensions": (lambda x: torch.fft.fft2(x).abs(), (numbers(3, 12, 20),)),
    "long": (lambda z: torch.fft.fft(z, norm="ortho"), (complexes(3, 400),)),
}


@each_driver
@pytest.mark.parametrize("memory", ["unified", "discrete"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, memory: str, driver: str) -> None:
    fn, inputs = GRADIENTS[name]
    counters.clear()
    function = compiled(fn, driver, memory=memory)
    for mine, right in with_gradients(function, fn, inputs):
        scale = float(right.abs().square().mean().sqrt())
        assert float((mine - right).abs().max()) <= 1e-5 * scale
    assert counters["opencl"]["fallbacks"] == 0


WINDOWS: dict[str, Callable[..., Tensor]] = {
    "hann": torch.hann_window,
    "hamming": torch.hamming_window,
    "hamming, three": lambda n, **more: torch.hamming_window(n, False, 0.6, 0.3, **more),
    "blackman": torch.blackman_window,
    "bartlett": torch.bartlett_window,
}


@each_driver
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, driver: str) -> None:
    def program(x: Tensor) -> Any:
        windows = [WINDOWS[name](n, dtype=x.dtype) for n in (0, 1, 2, 5, 64, 401)]
        return (*windows, WINDOWS[name](64, dtype=x.dtype) * x)

    _is_near(program, numbers(64), most=1e-6, device=driver)
    halves = compiled(program, driver)(numbers(64).half())[-2]
    # Eager has some of them in the type itself, a hundred times as far off.
    exact = WINDOWS[name](401, dtype=torch.float64)
    torch.testing.assert_close(halves, exact.half(), rtol=1e-3, atol=1e-6)


@each_driver
@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett"])
def test_windows_that_are_symmetric(name: str, driver: str) -> None:
    def program(x: Tensor) -> Any:
        return tuple(
            getattr(torch, f"{name}_window")(n, False, dtype=x.dtype) + x for n in (2, 3, 10, 11)
        )

    _is_near(program, numbers(1), most=1e-6, device=driver)


# -- sums of windows -----------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize(("size", "step"), [(5, 2), (3, 3), (2, 5), (20, 1), (1, 1)])
def test_sums_of_windows(
    size: int, step: int, dtype: torch.dtype, driver: str, profile: str
) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.ops.aten.unfold_backward(x * 2, [3, 40, 2], 1, size, step)

    x = numbers(3, math.floor((40 - size) / step) + 1, 2, size, dtype=dtype)
    agree(program, x, device=driver, profile=profile)
