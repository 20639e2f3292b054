"""Hours of a calibrated service with a stand-in model: calm in health, quick and clear on a fault."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from quality_lib.adapters.files.readings import RECHECKS
from quality_lib.drift.sequential import SequentialState
from quality_lib.golden.answer import Answer, Channel
from quality_lib.jobs.drift_check import decide_drift
from quality_lib.records import Tri
from tests.drift_hours import Hours
from tests.drift_world import DriftWorld


@pytest.fixture
def noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(DriftWorld(tmp_path, monkeypatch, noise=0.02), 4, 36, spread=0.003)


@pytest.fixture
def exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hours:
    """A server whose scores repeat bit for bit."""
    return Hours(DriftWorld(tmp_path, monkeypatch, noise=0.0), 3, 80)


def move(hours: Hours, by: float, *channels: Channel, cases: frozenset[str] | None = None) -> None:
    """Move the scores of some channels or cases for good."""
    spoil = hours.world.model.spoil

    def change(answer: Answer) -> Answer:
        answer = spoil(answer)
        probe = answer.probe
        if (channels and probe.channel not in channels) or (cases and probe.case_id not in cases):
            return answer
        return dataclasses.replace(
            answer, logprobs=tuple(None if x is None else x - by for x in answer.logprobs)
        )

    hours.world.model.change = change


def test_two_hundred_healthy_hours_with_restarts_call_nobody(noisy: Hours) -> None:
    for hour in range(200):
        if hour % 20 == 0:
            noisy.restart()
        record, verdict = noisy.check()
        assert (record.pages, record.changed) == (False, Tri.NO), record
        assert verdict.is_good, verdict.reasons


@pytest.mark.parametrize("by", [0.02, 0.3])
def test_a_lasting_shift_is_found_within_hours_and_stays_told(noisy: Hours, by: float) -> None:
    noisy.check()
    move(noisy, by)
    *_, (record, verdict) = noisy.until_changed(8)
    assert record.pages
    assert record.layer == "L2"
    assert verdict.suspected
    assert verdict.changed is Tri.YES
    assert noisy.check()[1].changed is Tri.YES


def test_a_gross_shift_of_the_chat_channel_alone_is_named_within_the_hour(noisy: Hours) -> None:
    move(noisy, 2.0, Channel.CHAT_SCORED)
    record, verdict = noisy.check()
    assert (record.pages, record.rechecks) == (True, 1)
    assert "template" in str(verdict.suspected)
    assert record.steps[0].cache != record.steps[1].cache, "the repeat is made in another state"


def test_one_odd_hour_is_forgotten(noisy: Hours) -> None:
    noisy.world.model.shift = 0.01
    record, _ = noisy.check()
    assert record.e_value
    assert record.e_value > 1
    noisy.world.model.shift = 0.0
    for _ in range(10):
        record, verdict = noisy.check()
        assert verdict.changed is Tri.NO
    assert record.level
    assert record.level < 10


def test_where_bits_repeat_one_moved_answer_is_proven_within_the_hour(exact: Hours) -> None:
    assert exact.calibration.is_deterministic
    record, verdict = exact.check()
    assert verdict.is_good
    case = min(key[0] for key in exact.calibration.healthy)
    move(exact, 1e-9, cases=frozenset({case}))
    record, verdict = exact.check()
    assert (record.pages, record.layer, record.rechecks) == (True, "L1", 1)
    assert verdict.changed is Tri.YES


def test_an_answer_outside_the_sentinel_set_counts_when_it_is_found_again(exact: Hours) -> None:
    watched = {key[0] for key in exact.calibration.healthy}
    other = next(case.id for case in exact.world.cases if case.id not in watched)
    move(exact, 1e-9, cases=frozenset({other}))
    record, verdict = exact.check()
    assert (record.changed, verdict.changed) == (Tri.NO, Tri.UNKNOWN)
    assert any(reason.code.endswith("_once") for reason in verdict.reasons)
    assert exact.check()[1].changed is Tri.YES


def test_other_traffic_in_the_batches_calls_nobody(exact: Hours) -> None:
    exact.world.model.noise = 0.01
    for _ in range(6):
        record, verdict = exact.check()
        assert "unsteady" in record.codes
        assert (record.pages, verdict.changed) == (False, Tri.NO)
        assert SequentialState.from_json(record.state) == SequentialState()
    exact.world.model.noise = 0.0
    assert exact.check()[1].is_good


def test_traffic_that_begins_between_run_and_recheck_proves_nothing(exact: Hours) -> None:
    """The run repeats itself and has moved, as within one steady burst of others; the re-check does not."""
    model = exact.world.model
    scored = sum(len(case.scored) for case in exact.world.baseline.cases.values())

    def burst() -> None:
        model.shift = 0.001 if model.asked_scores - before <= 2 * scored else 0.0
        model.noise = 0.0 if model.asked_scores - before <= 2 * scored else 0.01

    before = model.asked_scores
    model.before_score = burst
    record, verdict = exact.check()
    assert record.rechecks == 1
    assert (record.pages, record.changed, verdict.changed) == (False, Tri.UNKNOWN, Tri.UNKNOWN)


def scatter(hours: Hours) -> None:
    """Let every answer lie elsewhere in each round, and be the same in both attempts of one."""
    model, round_of = hours.world.model, {}
    spoil = model.spoil

    def change(answer: Answer) -> Answer:
        answer = spoil(answer)
        if not answer.probe.channel.endswith("_scored"):
            return answer
        name = (answer.probe.case_id, answer.probe.channel)
        if answer.probe.attempt == 1:
            round_of[name] = model.rng.uniform(0.001, 0.01)
        by = round_of[name]
        return dataclasses.replace(
            answer, logprobs=tuple(None if x is None else x - by for x in answer.logprobs)
        )

    model.change = change


def test_rechecks_are_bounded(exact: Hours) -> None:
    exact.world.configure(
        limits={"min_checks": 120, "min_blocks": 12, "most_rechecks": 1, "moved_checks": 9}
    )
    scatter(exact)
    record, _ = exact.check()
    assert record.rechecks == 1
    assert not record.pages


def test_a_kill_between_two_rechecks_asks_the_first_one_no_more(
    exact: Hours, tmp_path: Path
) -> None:
    scatter(exact)
    model, file = exact.world.model, tmp_path / RECHECKS
    hour = exact.asked(file)
    each = 2 * len(exact.calibration.healthy)
    before = model.asked_scores

    def kill() -> None:
        if model.asked_scores > before + each + each // 2:
            raise KeyboardInterrupt

    model.before_score = kill
    with pytest.raises(KeyboardInterrupt):
        decide_drift(hour)
    kept = file.read_bytes()
    assert kept.count(b"\n") == 1
    model.before_score = lambda: None
    before = model.asked_scores
    record = decide_drift(hour)
    assert model.asked_scores - before == each, "the second re-check alone was asked"
    assert [step.check_id for step in record.steps] == [
        hour.run.run_id, f"{hour.run.run_id}-recheck-1", f"{hour.run.run_id}-recheck-2",
    ]  # fmt: skip
    assert (record.pages, record.layer) == (True, "L1")
    assert file.read_bytes().startswith(kept)
    before = model.asked_scores
    assert decide_drift(hour) == record, (
        "a decision that was lost before it was written is made again"
    )
    assert model.asked_scores == before
