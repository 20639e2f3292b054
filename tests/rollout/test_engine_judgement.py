"""What an engine's signals say: damage, its healthy look-alikes, and silence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quality_lib.records import Tri
from quality_lib.rollout.engine_judgement import SIGNALS, judge_reading
from quality_lib.rollout.engine_limits import EngineLimits
from quality_lib.rollout.engine_reading import (
    CORRUPTED,
    FINISHED,
    NAN_STEPS,
    PREEMPTIONS,
    EngineReading,
    EngineSample,
    GpuHealth,
    LogLook,
    WeightsLook,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
YES, NO, UNKNOWN = Tri.YES, Tri.NO, Tri.UNKNOWN
GOOD_WEIGHTS = WeightsLook(NOON.isoformat(), "v1-l-r", size=269_000_000)


def sample(minute: float, **changes: Any) -> EngineSample:
    """A healthy, idle server that tells everything."""
    healthy = EngineSample(
        at=(NOON + timedelta(minutes=minute)).isoformat(),
        instance="http://a:8000",
        process="100.00",
        counters={CORRUPTED: 0, NAN_STEPS: 0, PREEMPTIONS: 0, FINISHED: 1000},
        running=0,
        waiting=0,
        kv_usage=0.0,
        health=YES,
        log=LogLook("1:2", 1000),
        gpus=(GpuHealth("GPU-1", 0, False, 0),),
        weights=GOOD_WEIGHTS,
    )
    counters = {**healthy.counters, **changes.pop("counters", {})}
    return replace(healthy, counters=counters, **changes)


def without(whole: EngineSample, counter: str) -> EngineSample:
    return replace(whole, counters={k: v for k, v in whole.counters.items() if k != counter})


def states(*samples: EngineSample, **limits: Any) -> dict[str, Tri]:
    found = judge_reading(EngineReading(samples), EngineLimits(**limits))
    return {finding.name: finding.state for finding in found}


def state(name: str, *samples: EngineSample, **limits: Any) -> Tri:
    return states(*samples, **limits)[name]


def test_without_a_look_nothing_is_said() -> None:
    assert judge_reading(EngineReading(), EngineLimits()) == ()


def test_a_healthy_server_has_no_signal_of_damage() -> None:
    assert states(sample(0), sample(5)) == dict.fromkeys(SIGNALS, NO)


def test_one_reading_is_no_rate() -> None:
    unknown = {"corrupted_requests", "nan_logits", "preemption_storm"}
    found = states(sample(0))
    assert {name for name, found_state in found.items() if found_state is UNKNOWN} == unknown


def test_a_server_that_tells_nothing_is_unknown_in_everything() -> None:
    nothing = [EngineSample(sample(minute).at, "http://a:8000") for minute in (0, 5)]
    assert states(*nothing) == dict.fromkeys(SIGNALS, UNKNOWN)


def test_every_finding_names_its_instance_and_time() -> None:
    for finding in judge_reading(EngineReading((sample(0), sample(5))), EngineLimits()):
        assert finding.evidence["instance"] == "http://a:8000"
        assert finding.at == sample(5).at
        assert finding.sentence


@pytest.mark.parametrize(
    ("name", "counter"), [("corrupted_requests", CORRUPTED), ("nan_logits", NAN_STEPS)]
)
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0, 0], NO),
        ([0, 1], YES),
        ([7, 7], NO),  # long ago
        ([7, 8, 8], YES),  # within the window
        ([None, 3], UNKNOWN),  # switched on in between: nothing to rise from
        ([0, None], UNKNOWN),
    ],
)
def test_what_is_counted(name: str, counter: str, values: list[Any], wanted: Tri) -> None:
    told = [
        without(sample(minute), counter)
        if value is None
        else sample(minute, counters={counter: value})
        for minute, value in enumerate(values)
    ]
    assert state(name, *told) is wanted


@pytest.mark.parametrize("process", ["200.00", ""], ids=["told", "seen by a counter that fell"])
def test_a_restart_begins_anew(process: str) -> None:
    before = [sample(m, counters={CORRUPTED: m}, process=process and "100.00") for m in (1, 2)]
    first = sample(3, counters={CORRUPTED: 0, FINISHED: 2}, process=process)
    assert state("corrupted_requests", *before) is YES
    assert state("corrupted_requests", *before, first) is UNKNOWN
    after = sample(4, counters={CORRUPTED: 0, FINISHED: 9}, process=process)
    assert state("corrupted_requests", *before, first, after) is NO


def test_errors_of_the_process_before_do_not_speak_of_the_new_one() -> None:
    bad = sample(0, log=LogLook("1:2", 1, ("CUDA error: unspecified",)))
    fresh = [sample(m, process="200.00", log=LogLook("1:3", 1)) for m in (1, 2)]
    assert state("engine_errors", bad) is YES
    assert state("engine_errors", bad, *fresh) is NO


@pytest.mark.parametrize(
    ("usages", "wanted"),
    [
        ([0.0, 0.0], NO),
        ([0.02, 0.3], NO),  # below the limit of R1
        ([0.5], UNKNOWN),  # between two steps it may look like this
        ([0.5, 0.5], YES),
        ([0.5, 0.0], NO),
        ([0.5, 0.0, 0.5], UNKNOWN),
    ],
)
def test_a_cache_in_use_while_nothing_runs(usages: list[float], wanted: Tri) -> None:
    samples = [sample(minute, kv_usage=usage) for minute, usage in enumerate(usages)]
    assert state("kv_leak", *samples) is wanted


@pytest.mark.parametrize("busy", [{"running": 8}, {"waiting": 3}, {"running": 256, "waiting": 900}])
def test_a_full_cache_of_a_busy_server_is_no_leak(busy: dict[str, float]) -> None:
    samples = [sample(minute, kv_usage=0.95, **busy) for minute in range(4)]
    assert state("kv_leak", *samples) is NO


def test_a_request_between_two_idle_readings_begins_the_count_anew() -> None:
    samples = [
        sample(0, kv_usage=0.6),
        sample(1, kv_usage=0.6, running=1),
        sample(2, kv_usage=0.6),
    ]
    assert state("kv_leak", *samples) is UNKNOWN


def test_two_idle_readings_in_one_moment_are_one() -> None:
    assert state("kv_leak", sample(0, kv_usage=0.6), sample(0.1, kv_usage=0.6)) is UNKNOWN


@pytest.mark.parametrize(
    ("preemptions", "finished", "wanted"),
    [
        (0, 500, NO),
        (1, 0, NO),  # one preemption is how the scheduler works
        (19, 1, NO),
        (20, 20, NO),
        (20, 19, YES),
        (500, 1000, NO),
        (500, 3, YES),
        (20, 0, YES),
    ],
)
def test_preemptions(preemptions: float, finished: float, wanted: Tri) -> None:
    after = sample(5, counters={PREEMPTIONS: preemptions, FINISHED: 1000 + finished})
    assert state("preemption_storm", sample(0), after) is wanted


def test_health() -> None:
    dead = sample(1, health=NO, health_problem="/health answers 503")
    nobody = sample(1, health=UNKNOWN, health_problem="connection refused")
    assert state("engine_health", sample(0), dead) is YES
    assert state("engine_health", sample(0), nobody) is UNKNOWN


def test_the_log() -> None:
    quiet = sample(0)
    error = sample(1, log=LogLook("1:2", 9, ("RuntimeError: CUDA error: misaligned address",)))
    assert state("engine_errors", quiet, error) is YES
    assert state("engine_errors", quiet, error, sample(2)) is YES  # within the window
    assert state("engine_errors", quiet, error, log_errors=2) is NO
    assert state("engine_errors", sample(0, log=None)) is UNKNOWN
    assert state("engine_errors", sample(0, log=LogLook("", 0, problem="gone"))) is UNKNOWN


@pytest.mark.parametrize(
    ("before", "now", "wanted"),
    [
        (GpuHealth("g", 0), GpuHealth("g", 0), NO),
        (GpuHealth("g", 3), GpuHealth("g", 3), NO),  # an error of last month
        (GpuHealth("g", 3), GpuHealth("g", 4), YES),
        (GpuHealth("g", 3), GpuHealth("g", 0), NO),  # the driver was loaded again
        (GpuHealth("g"), GpuHealth("g"), UNKNOWN),  # no ECC
        (GpuHealth("g", 0, False), GpuHealth("g", 0, True), YES),
        (GpuHealth("g", xid=48), GpuHealth("g", xid=48), NO),  # shown for ever
        (GpuHealth("g", xid=0), GpuHealth("g", xid=48), YES),
        (GpuHealth("g", xid=0), GpuHealth("g", xid=13), NO),  # a program's own doing
    ],
)
def test_gpus(before: GpuHealth, now: GpuHealth, wanted: Tri) -> None:
    assert state("gpu_memory", sample(0, gpus=(before,)), sample(1, gpus=(now,))) is wanted


def test_an_old_xid_in_a_first_reading_says_nothing() -> None:
    assert state("gpu_memory", sample(0, gpus=(GpuHealth("g", xid=79),))) is UNKNOWN


def test_weights() -> None:
    changed = replace(GOOD_WEIGHTS, changed=1, names=("model.norm.weight",))
    (finding,) = (
        one
        for one in judge_reading(EngineReading((sample(0, weights=changed),)), EngineLimits())
        if one.name == "live_weights"
    )
    assert finding.state is YES
    assert "model.norm.weight" in finding.sentence
    for silent in (None, WeightsLook(NOON.isoformat(), problem="not loaded with the extension")):
        assert state("live_weights", sample(0, weights=silent)) is UNKNOWN


@pytest.mark.parametrize(
    "wrong",
    [
        {"idle_readings": 1},
        {"idle_kv_usage": 0},
        {"window_minutes": 0},
        {"corrupted_requests": 0},
        {"idle_spread_s": -1},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EngineLimits(**wrong)
