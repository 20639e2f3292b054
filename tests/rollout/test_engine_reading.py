"""What is kept of an engine from look to look."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.rollout.engine_reading import (
    CORRUPTED,
    MAX_SAMPLES,
    EngineReading,
    EngineSample,
    increase,
    reading_from_json,
    reading_to_json,
    same_process,
)
from tests.rollout.test_engine_judgement import sample


def grown(*samples: EngineSample, window: float = 30) -> list[str]:
    reading = EngineReading()
    for one in samples:
        reading = reading.with_sample(one, window)
    return [one.at[14:16] for one in reading.samples]


def test_samples_outside_the_window_are_forgotten() -> None:
    assert grown(*map(sample, (0, 10, 25, 41))) == ["25", "41"]


def test_the_last_one_is_kept_however_old() -> None:
    assert grown(sample(0), sample(59)) == ["00", "59"]


def test_another_instance_begins_anew() -> None:
    from dataclasses import replace

    assert grown(sample(0), replace(sample(1), instance="http://b:8000")) == ["01"]


def test_a_clock_that_went_back_drops_what_is_in_the_future() -> None:
    assert grown(sample(10), sample(5)) == ["05"]


def test_never_more_than_so_many() -> None:
    reading = EngineReading()
    for second in range(MAX_SAMPLES + 20):
        reading = reading.with_sample(sample(second / 60), 30)
    assert len(reading.samples) == MAX_SAMPLES


def test_json_round_trip() -> None:
    reading = EngineReading((sample(0), sample(1, log=None, gpus=None, weights=None)))
    text = json.dumps(reading_to_json(reading))
    assert reading_from_json(json.loads(text)) == reading


def test_the_smallest_reading_survives_too() -> None:
    bare = EngineReading((EngineSample("2026-11-30T12:00:00+00:00", "http://a"),))
    assert reading_from_json(json.loads(json.dumps(reading_to_json(bare)))) == bare


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"format": 2, "samples": []},
        {"format": 1, "samples": [{"at": "yesterday", "instance": "x"}]},
        {"format": 1, "samples": [{"instance": "x"}]},
        {"format": 1, "samples": [{"at": "2026-11-30T12:00:00+00:00", "instance": 3}]},
        {"format": 1, "samples": [{"at": 1, "instance": "x"}]},
        {"format": 1, "samples": "abc"},
    ],
)
def test_what_is_no_reading_is_refused(data: Any) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        reading_from_json(data)


def test_increase_needs_two_readings_of_the_counter() -> None:
    assert increase((sample(0),), CORRUPTED) is None
    assert increase((sample(0), sample(1, counters={CORRUPTED: 4})), CORRUPTED) == 4
    assert increase((sample(0), sample(1)), "another") is None


def test_one_process() -> None:
    samples = (sample(0), sample(1, process="2"), sample(2, process="2"))
    assert same_process(EngineReading(samples)) == samples[1:]
    unnamed = tuple(sample(m, process="", counters={CORRUPTED: v}) for m, v in enumerate((5, 1, 2)))
    assert same_process(EngineReading(unnamed)) == unnamed[1:]
