"""What a watch says of memory that was written, and of memory that was not."""

from __future__ import annotations

import ctypes
import gc
import mmap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ocl_inductor.patches.process.written_pages import written_pages
from ocl_inductor.runtime.parameters import watch
from ocl_inductor.runtime.parameters.checksums import PIECE, Checksums
from ocl_inductor.runtime.parameters.mappings import behind, mappings, stamp
from ocl_inductor.runtime.parameters.parameters import Parameters
from ocl_inductor.runtime.parameters.watch import COPIED_BYTES, LOOKS, Watch

needs_pages = pytest.mark.skipif(
    written_pages() is None, reason="the system does not tell written pages"
)


@pytest.fixture(params=["pages", "whole", "in turn"])
def watching(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Watch]:
    """Makes a watch over tensors that knows how they are."""
    if request.param == "pages" and written_pages() is None:
        pytest.skip("the system does not tell written pages")
    if request.param != "pages":
        monkeypatch.setattr(watch, "written_pages", lambda: None)

    def make(*tensors: torch.Tensor) -> Watch:
        found = Watch([(x, x.nbytes) for x in tensors], exact=request.param == "whole")
        found.take()
        return found

    return make


def seen(found: Watch, looks: int = LOOKS) -> bool:
    return any(found.changed() for _ in range(looks))


def quiet(found: Watch) -> bool:
    """Whether a watch has nothing to say once it has looked at all of the memory."""
    found.changed()
    return not seen(found)


@pytest.mark.parametrize("numel", [1, 5, 1000, 4096, 4097, 20_000, 200_003])
def test_any_byte(numel: int, watching: Callable[..., Watch]) -> None:
    x = torch.randn(numel)
    found = watching(x)
    assert not seen(found)
    data = x.numpy().view(np.uint8)
    for at in {0, 1, 4 * numel - 1, 2 * numel, *map(int, np.random.randint(0, 4 * numel, 5))}:
        data[at] ^= 0x80
        assert seen(found)
        assert quiet(found)


def test_neighbours_are_not_watched(watching: Callable[..., Watch]) -> None:
    x = torch.randn(100_001)
    found = watching(x[7:-9])
    x.numpy()[:7] = 0
    x.numpy()[-9:] = 0
    assert not seen(found)
    x.numpy()[7] += 1
    assert seen(found)
    x.numpy()[-10] += 1
    assert seen(found)


def test_many_tensors(watching: Callable[..., Watch]) -> None:
    tensors = [torch.randn(n) for n in (3, 70_000, 128, 5000, 200_000)]
    tensors.append(tensors[1][100:300])  # in the memory of another
    found = watching(*tensors)
    for x in tensors:
        x.numpy()[len(x) // 2] -= 1
        assert seen(found)
        assert quiet(found)


def test_memory_that_nobody_has_touched(watching: Callable[..., Watch]) -> None:
    x = torch.empty(2 << 20)
    found = watching(x)
    found.changed()  # looking may be what touches it first
    assert not seen(found)
    x.numpy().view(np.int32)[1 << 20] ^= 1
    assert seen(found)


def test_every_difference_of_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums modulo a power of two tend to miss two changed signs."""
    words = PIECE // 4
    x = torch.randn(words)
    sums = Checksums([(x.data_ptr(), x.data_ptr() + x.nbytes)], looks=1)
    sums.take()
    for _ in range(200):
        a, b = np.random.choice(words, 2, replace=False)
        x.numpy()[[a, b]] *= -1
        assert sums.changed()
        x.numpy()[[a, b]] *= -1
        assert not sums.changed()


def test_rows_that_change_places() -> None:
    x = torch.randn(256, 256)
    sums = Checksums([(x.data_ptr(), x.data_ptr() + x.nbytes)], looks=1)
    sums.take()
    x.numpy()[[3, 200]] = x.numpy()[[200, 3]]
    assert sums.changed()


def test_looks_in_turn_see_all_memory() -> None:
    x = torch.randn(7 * PIECE // 4 + 2)
    for at in range(0, x.numel(), PIECE // 8):
        sums = Checksums([(x.data_ptr(), x.data_ptr() + x.nbytes)], looks=3)
        sums.take()
        assert not any(sums.changed() for _ in range(4))
        x[at] += 1
        assert sum(sums.changed() for _ in range(3)) == 1


@needs_pages
def test_two_watches_of_one_tensor() -> None:
    """What one has seen, and protected again, the other sees as well."""
    x = torch.randn(100_000)
    first, second = (Watch([(x, x.nbytes)]) for _ in range(2))
    part = Watch([(x[40_000:], 240_000)])
    for found in (first, second, part):
        found.take()
    assert not any(w.changed() for w in (first, second, part))
    x.numpy()[90_000] += 1
    assert [w.changed() for w in (first, second, part)] == [True] * 3
    assert not any(w.changed() for w in (first, second, part))
    x.numpy()[90_000] += 1
    third = Watch([(x, x.nbytes)])
    third.take()
    assert [w.changed() for w in (first, second, part)] == [True] * 3
    assert not third.changed()
    del third
    gc.collect()  # the pages of others stay protected
    x.numpy()[50_000] += 1
    assert [w.changed() for w in (first, second, part)] == [True] * 3


@needs_pages
def test_pages_written_all_over() -> None:
    """More regions than one scan reports."""
    page = 1024  # elements
    x = torch.randn(2000 * page)
    found = Watch([(x, x.nbytes)])
    found.take()
    for _ in range(2):
        x.numpy()[:: 2 * page] += 1
        assert found.changed()
        assert not found.changed()


@needs_pages
def test_other_memory_at_the_same_address() -> None:
    """Memory that was given back and mapped again is no longer watched, and counts as changed."""
    memory = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    x = torch.frombuffer(memory, dtype=torch.float32)
    found = Watch([(x, x.nbytes)])
    found.take()
    assert not found.changed()
    assert _map_anew(x.data_ptr(), 1 << 20) == x.data_ptr()
    assert found.changed()
    assert found.changed()  # now it is known again
    assert not found.changed()
    x[7] = 1
    assert found.changed()


def _map_anew(address: int, nbytes: int) -> int:
    call = ctypes.CDLL(None).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    fixed = 0x10
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed
    found: int = call(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    return found


def test_written_before_each_look(watching: Callable[..., Watch]) -> None:
    """Then it is not looked at for longer and longer; every call counts as a change."""
    x = torch.randn(3000)
    found = watching(x)
    for _ in range(200):
        x.numpy()[0] += 1
        assert found.changed()
    assert found.rest > 0
    calls = 0
    while found.changed():
        calls += 1
    assert calls <= 66
    assert not seen(found)


def test_forgetting(watching: Callable[..., Watch]) -> None:
    x = torch.randn(COPIED_BYTES)
    found = watching(x)
    found.forget()
    assert found.changed()  # nobody knows what was written since
    assert not seen(found)


def test_nothing_to_watch() -> None:
    found = Watch([(torch.empty(0), 0)])
    assert not found.changed()
    found.forget()
    assert not found.changed()


@pytest.mark.parametrize("fused", [True, False])
def test_optimiser_steps(fused: bool) -> None:
    w, other = (torch.nn.Parameter(torch.randn(500)) for _ in range(2))
    found = Watch([(w[100:], 400)])
    found.take()
    assert not found.written
    for p in (other, w):
        p.grad = torch.ones_like(p)
        torch.optim.SGD([p], 0.1, fused=fused).step()
        assert found.written is (p is w)


@pytest.mark.skipif(not mappings(), reason="the system does not tell what is mapped")
@pytest.mark.parametrize("shared", [True, False])
def test_mapped_files(shared: bool, tmp_path: Path) -> None:
    path = tmp_path / "a file with blanks"
    path.write_bytes(bytes(40_000))
    x = torch.from_file(str(path), shared=shared, size=10_000)
    found = behind(x.data_ptr(), x.data_ptr() + x.nbytes, mappings())
    assert [(m.path, m.shared) for m in found] == [(str(path), shared)]
    own = torch.randn(10_000)
    assert behind(own.data_ptr(), own.data_ptr() + own.nbytes, mappings()) == ()


def test_stamps(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert stamp(str(path)) is None
    path.write_bytes(b"1")
    first = stamp(str(path))
    assert first == stamp(str(path))
    path.unlink()
    path.write_bytes(b"22")
    assert first != stamp(str(path))


def test_what_an_optimiser_writes_is_watched_apart() -> None:
    tensors = {name: torch.randn(100) for name in "abc"}
    known = Parameters(tensors, separate=True)

    def changed() -> set[str]:
        return known.changed(tuple(tensors.items()), lambda name, x: 4 * x.numel())

    assert changed() == {"a", "b", "c"}
    assert not changed()
    tensors["b"].add_(1)  # seen by its version
    assert changed() == {"a", "b", "c"}  # once: all were watched together
    for _ in range(3):
        tensors["b"].add_(1)
        assert changed() == {"b"}
    assert changed() == {"b"}  # it was not looked at between the steps
    assert not changed()
    tensors["a"].numpy()[5] = 7
    assert "a" in changed() and not changed()
    tensors["b"].numpy()[5] = 7
    assert changed() == {"b"} and not changed()
