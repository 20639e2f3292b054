"""A service whose sampler and decoding were calibrated: calm in health, and no longer blind to texts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from quality_lib.golden.answer import Answer, Channel
from quality_lib.records import Tri
from tests.drift_hours import Hours
from tests.drift_world import DriftWorld


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hours:
    """A service whose sampler and decoding were calibrated too."""
    world = DriftWorld(tmp_path, monkeypatch, noise=0.02)
    return Hours(world, 4, 36, spread=0.003, decode_every=1)


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hours:
    """The same with too few decoded checks."""
    return Hours(DriftWorld(tmp_path, monkeypatch, noise=0.02), 4, 36, spread=0.003)


def test_texts_in_health_call_nobody(answering: Hours) -> None:
    assert {"replay", "forks"} <= set(answering.calibration.statistics)
    for hour in range(40):
        if hour % 10 == 0:
            answering.restart()
        record, verdict = answering.check()
        assert (record.pages, record.changed) == (False, Tri.NO), record
        assert verdict.is_good, verdict.reasons


def redraw(hours: Hours, *channels: Channel) -> None:
    """Let the answers of some channels go another way from the fourth token on."""
    spoil = hours.world.model.spoil

    def change(answer: Answer) -> Answer:
        answer = spoil(answer)
        if answer.probe.channel not in channels:
            return answer
        return dataclasses.replace(answer, token_ids=(*answer.token_ids[:3], 1, 2, 3))

    hours.world.model.change = change


@pytest.mark.parametrize(
    ("channels", "place"),
    [((Channel.SEEDED,), "sampler"), ((Channel.GREEDY, Channel.SEEDED), "decoding")],
)
def test_answers_that_go_another_way_are_found_with_scores_that_stay(
    answering: Hours, channels: tuple[Channel, ...], place: str
) -> None:
    redraw(answering, *channels)
    for _ in range(48):
        record, _ = answering.check()
        if record.changed is Tri.YES:
            break
    assert (record.changed, record.layer, record.pages) == (Tri.YES, "L2", True)
    assert place in str(record.suspected)


def test_without_decoded_checks_the_decision_is_blind_to_the_sampler(silent: Hours) -> None:
    assert "replay" not in silent.calibration.statistics
    assert not any(key[1] == "seeded" for key in silent.calibration.healthy)
    redraw(silent, Channel.SEEDED)
    for _ in range(12):
        record, _ = silent.check()
        assert record.changed is Tri.NO
