"""The catalogue: every row of the matrix is there, named once, and can be applied somewhere."""

from __future__ import annotations

import re

import pytest

from bench.faults.catalogue import FULL, MEDIUM, Given, Sizes, catalogue, short_form
from bench.faults.controls import controls
from bench.faults.fault import Expected, Target
from bench.faults.weight_change import Weights
from bench.faults.weight_steps import drawn_flips

GIVEN = Given("{% if loop.first %}s{% endif %}<|im_start|>assistant\n")
FEW = Sizes(top_flips=8, other_flips=8, many_flips=2, draws=2)


def test_every_row_but_the_composed_one_is_there() -> None:
    assert {fault.number for fault in catalogue(GIVEN, FEW)} == set(range(1, 20))


def test_names_are_unique_and_faults_are_never_silent() -> None:
    faults = catalogue(GIVEN, FEW)
    assert len({fault.name for fault in faults}) == len(faults)
    assert all(fault.expected is not Expected.SILENT for fault in faults)
    assert all(fault.expected is Expected.DEGRADED for fault in faults if fault.is_gross)


def test_the_full_form_draws_as_often_as_the_protocol_asks() -> None:
    faults = catalogue(GIVEN, FULL)
    count = {row: sum(fault.number == row for fault in faults) for row in (1, 2, 3)}
    assert count == {1: 200, 2: 500, 3: 60}


def test_single_flips_meet_every_family_and_differ() -> None:
    top = [fault for fault in catalogue(GIVEN, FEW) if fault.number == 1]
    sizes = {
        "model.layers.0.self_attn.q_proj.weight": 1000, "model.layers.0.mlp.up_proj.weight": 1000,
        "model.embed_tokens.weight": 1000, "model.norm.weight": 1000,
    }  # fmt: skip
    flips = []
    for fault in top:
        assert isinstance(fault.change, Weights)
        flips += drawn_flips(sizes, fault.change.steps[0], fault.seed)
    assert {flip.bit for flip in flips} == {14}
    assert {flip.tensor for flip in flips} == set(sizes)
    assert len(set(flips)) == len(flips)


def test_other_flips_never_touch_the_top_exponent() -> None:
    for fault in catalogue(GIVEN, FEW):
        if fault.number == 2:
            assert isinstance(fault.change, Weights)
            assert set(fault.change.steps[0].bits) == {*range(14), 15}


def test_the_short_form_needs_one_server() -> None:
    faults = short_form(GIVEN)
    assert 10 <= len(faults) <= 20
    assert not any(fault.needs_restart for fault in faults)
    assert len({fault.number for fault in faults}) >= 12


@pytest.mark.parametrize(
    "name",
    ["load-1", "load-32", "cache-warm", "reordered", "restart", "chunked-prefill", "one-dropped"],
)
def test_controls_that_must_stay_silent(name: str) -> None:
    found = {control.fault.name: control for control in controls()}
    assert found[name].fault.expected is Expected.SILENT
    assert found[name].fault.number == 0


def test_controls_that_are_changes_and_not_degraded() -> None:
    changed = [c.fault.name for c in controls() if c.fault.expected is Expected.CHANGED]
    assert "float32" in changed
    assert sum(name.startswith("low-bit") for name in changed) >= 4
    assert not any(control.fault.is_gross for control in controls())


def test_controls_without_a_change_apply_to_a_bare_proxy() -> None:
    from bench.faults.fault import Shim

    shim = Shim()
    for control in controls():
        if control.fault.name.startswith("load"):
            control.fault.apply(Target(shim=shim))()
    assert shim.rewrites == []


def test_the_medium_form_draws_what_no_other_recording_holds() -> None:
    """Statistics were chosen on the first draws; what is reported must be others."""
    random = re.compile(r"-(\d+)$")
    rows = {1, 2, 3, 17}

    def draws(sizes: Sizes) -> set[tuple[int, int]]:
        found = [(f.number, random.search(f.name)) for f in catalogue(GIVEN, sizes)]
        return {(number, int(at[1])) for number, at in found if number in rows and at}

    assert len(draws(MEDIUM)) >= 32
    assert not draws(MEDIUM) & draws(FULL)
