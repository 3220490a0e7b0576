"""Numbers of each model's plans that may only get better: kernels, launches, memory, traffic.

They come from the compiler alone, for an imaginary device, so they are the same on every machine.
A number that got worse fails; ``pytest tests/models/test_plan_ratchet.py --update-ratchet`` writes
better ones to ``plan_ratchet.json`` (by hand, if something had to get worse, and say why).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from planning import model_plans

from benchmarks.zoo import MODELS
from ocl_inductor.plan.plan import Launch, Plan

PATH = Path(__file__).parent / "plan_ratchet.json"

#: Models of several kinds that are captured in a second or two; the others are slow.
QUICK = ("cnn5", "gru_tagger", "dlrm", "graph_net", "distilbert")

#: How much more than the largest set of buffers alive together a plan may take.
ALLOWED = 1.05

Numbers = dict[str, int]


def numbers(plans: list[Plan]) -> Numbers:
    """Of all graphs of a model together; bytes moved count each buffer of a kernel once, saved ones
    what a forward graph keeps for its backward graph beyond its inputs.
    """
    steps = [s for p in plans for s in p.steps]
    launches = [s for s in steps if isinstance(s, Launch)]
    return {
        "kernels": sum(len(p.kernels) for p in plans),
        "launches": len(launches),
        "host_calls": len(steps) - len(launches),
        "peak_bytes": sum(p.statistics["peak_bytes"] for p in plans),
        "lower_bound_bytes": sum(p.statistics["lower_bound_bytes"] for p in plans),
        "moved_bytes": sum(int(s.bytes) for s in launches),
        "saved_bytes": sum(map(_saved, plans)),
    }


def _saved(plan: Plan) -> int:
    if plan.visible_outputs is None:
        return 0
    made = {b.name: int(b.extent) * b.dtype.itemsize for b in plan.buffers}
    kept = {o.name for o in plan.outputs[plan.visible_outputs :]}
    return sum(made.get(name, 0) for name in kept)


def cases() -> Iterator[object]:
    for name in MODELS:
        for kind in ("inference", "training"):
            slow = name not in QUICK
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(name, kind, id=f"{name}-{kind}", marks=marks)


@pytest.mark.parametrize(("name", "kind"), list(cases()))
def test_plans_get_no_worse(name: str, kind: str, request: pytest.FixtureRequest) -> None:
    plans = model_plans(name, training=kind == "training")
    assert plans
    for p in plans:
        assert p.statistics["peak_bytes"] <= ALLOWED * p.statistics["lower_bound_bytes"]
    found = numbers(plans)
    known = json.loads(PATH.read_text()) if PATH.exists() else {}
    before: Numbers = known.get(name, {}).get(kind, {})
    if request.config.getoption("--update-ratchet"):
        best = {k: min(v, before.get(k, v)) for k, v in found.items()}
        known.setdefault(name, {})[kind] = best
        PATH.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        before = best
    if not before:
        pytest.skip("not on record yet: run with --update-ratchet")
    worse = {k: (before[k], v) for k, v in found.items() if v > before[k]}
    assert not worse, f"(before, now): {worse}"


def test_a_worse_number_is_noticed(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The ratchet's own teeth: with one kernel fewer on record, the test fails."""
    if request.config.getoption("--update-ratchet"):
        pytest.skip("the file is being written")
    known = json.loads(PATH.read_text())
    known["dlrm"]["inference"]["launches"] -= 1
    monkeypatch.setattr(json, "loads", lambda text: known)
    with pytest.raises(AssertionError, match="launches"):
        test_plans_get_no_worse("dlrm", "inference", request)
