"""Which templates are asked for by ``mode="max-autotune"``, and what for. Nothing is measured."""

from __future__ import annotations

import dataclasses

import pytest
from evaluate import Harness
from tunable import CASES, SIMT, asked_by

from ocl_inductor.ir.nodes import Template
from ocl_inductor.templates.registry import SPECS
from ocl_inductor.templates.spec import tunable_fields

EACH = pytest.mark.parametrize(
    ("name", "profile"), [*((n, "vector") for n in CASES), *((n, "simt") for n in SIMT)]
)


def harness_for(profile: str) -> Harness:
    harness = Harness()
    width = harness.ctx.device.vector_width if profile == "vector" else 1
    facts = dataclasses.replace(harness.ctx.device, profile=profile, vector_width=width)
    harness.ctx.device = facts
    return harness


def parameters(harness: Harness, name: str) -> object:
    (node,) = (n for n in harness.ctx.nodes if isinstance(n, Template) and n.spec == name)
    return node.params


def test_every_template_with_a_choice_has_a_case() -> None:
    assert CASES.keys() == {name for name, spec in SPECS.items() if tunable_fields(spec.params)}


@EACH
def test_the_first_candidate_is_what_other_modes_take(name: str, profile: str) -> None:
    for make in CASES[name]:
        target, args, given = make()
        plain = harness_for(profile)
        plain.lower(target, *args, **given)
        tuned = harness_for(profile)
        (spec, candidates), *others = asked_by(tuned, (target, args, given))
        assert spec is SPECS[name] and not others
        assert len(candidates) == len(set(candidates)) > 1
        assert parameters(tuned, name) == parameters(plain, name)


@EACH
def test_what_was_chosen_is_the_node(name: str, profile: str) -> None:
    for make in CASES[name]:
        harness = harness_for(profile)
        ((spec, candidates),) = asked_by(harness, make(), choice=1)
        for field in tunable_fields(spec.params):
            chosen = getattr(candidates[1], field)
            assert getattr(parameters(harness, name), field) == chosen
