"""The zoo and the measuring tools themselves; no OpenCL needed."""

from __future__ import annotations

import pytest
import torch

from benchmarks.errors import largest_error, named, scale
from benchmarks.zoo import ALL, MODELS, Entry, tensor_outputs
from ocl_inductor.sweep.performance.timing import interleave, summarise


@pytest.mark.parametrize("name", ["cnn5", "bert", "gru_tagger", "graph_net"])
def test_models_are_reproducible(name: str) -> None:
    entry = MODELS[name]
    torch.manual_seed(5)  # the caller's seed must not matter
    first = entry.build(small=True)
    torch.manual_seed(6)
    second = entry.build(small=True)
    assert not first.training
    inputs, same = entry.inputs(small=True, seed=1), entry.inputs(small=True, seed=1)
    with torch.no_grad():
        left = named(first(*inputs.args, **inputs.kwargs))
        right = named(second(*same.args, **same.kwargs))
    assert left
    assert largest_error(left, right) == 0


def test_building_leaves_the_global_seed_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    ALL["cnn5"].build(small=True)
    assert torch.equal(torch.rand(3), expected)


def test_every_entry_makes_inputs() -> None:
    for entry in ALL.values():
        assert isinstance(entry, Entry)
        inputs = entry.inputs(small=True)
        assert inputs.args or inputs.kwargs, entry.name
        for _, tensor in tensor_outputs(inputs.double().args):
            assert tensor.dtype != torch.float32


def test_largest_error_sees_non_finite_values() -> None:
    ones, nan = torch.ones(2), torch.tensor([1.0, float("nan")])
    assert largest_error({"out": nan}, {"out": ones}) == float("inf")
    assert largest_error({"out": nan}, {"out": nan.double()}) == 0
    assert scale({"out": nan}) == 1
    with pytest.raises(ValueError, match="shape"):
        largest_error({"out": ones}, {"out": torch.ones(3)})
    with pytest.raises(ValueError, match="against"):
        largest_error({"out": ones}, {"other": ones})


def test_interleaving_gives_every_contender_all_rounds() -> None:
    called: set[str] = set()
    timings = interleave({n: lambda n=n: called.add(n) for n in "ab"}, rounds=4)
    assert {len(t.samples_ms) for t in timings.values()} == {4}
    assert called == {"a", "b"}
    assert summarise([1.0, 2.0, 3.0], 1).median_ms == 2
    with pytest.raises(ValueError, match="samples"):
        summarise([], 1)
