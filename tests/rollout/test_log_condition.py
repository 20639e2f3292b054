"""Condition B: windows of production traffic, late, small, straddling and contradicting ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.records import Summary, Tri
from quality_lib.rollout.limits import TriggerLimits
from quality_lib.rollout.log_condition import judge_log
from quality_lib.scoring.result import Depth, ScorePoint
from tests.rollout.evidence_builders import ago, evidence, window

Y, N, U = Tri.YES, Tri.NO, Tri.UNKNOWN


def judged(*windows: ScorePoint, **changes: Any) -> Any:
    return judge_log(evidence(scores=windows, **changes), TriggerLimits())


def unjudged(minutes: float) -> ScorePoint:
    return window(minutes, 30, summary=Summary.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("windows", "state", "note"),
    [
        pytest.param([window(2, 80)], Y, None, id="a fifth of 400"),
        pytest.param([window(2, 0)], N, None, id="all good"),
        pytest.param([window(2, 20)], N, None, id="exactly at the limit"),
        pytest.param([window(2, 36)], Y, None, id="36 of 400 is proof"),
        pytest.param([window(2, 35)], U, "inconclusive", id="35 of 400 may be chance"),
        pytest.param([window(2, 3, rows=4)], U, "inconclusive", id="high rate in a tiny sample"),
        pytest.param([window(2, 49, rows=49)], U, "inconclusive", id="one below the minimum"),
        pytest.param([window(2, 50, rows=50)], Y, None, id="at the minimum"),
        pytest.param(
            [window(2, 80, effective_rows=12.0)], U, "inconclusive", id="12 rows in truth"
        ),
        pytest.param([window(2, 80, effective_rows=None)], Y, None, id="of an older release"),
        pytest.param([window(2, 80, share=float("nan"))], U, "inconclusive", id="NaN"),
        pytest.param([window(2, 80, effective_rows=float("nan"))], Y, None, id="NaN rows"),
        pytest.param([unjudged(2)], U, "inconclusive", id="no verdict"),
        pytest.param([window(2, 0, rows=0)], U, "inconclusive", id="no traffic"),
        pytest.param([], U, "no_scores", id="never scored"),
        pytest.param([window(30, 80)], Y, None, id="late, and still allowed"),
        pytest.param([window(31, 80)], U, "stale", id="too late"),
        pytest.param([window(31)], U, "stale", id="an old good window is no no"),
        pytest.param([window(-30, 80)], U, "clock", id="clocks disagree"),
        pytest.param([window(-1, 80)], Y, None, id="a clock a minute ahead"),
        pytest.param([window(-30, 80), window(3)], N, None, id="the future is left out"),
        pytest.param([window(2, 80, end="soon")], U, "clock", id="no time"),
        pytest.param([window(2, 80, depth=Depth.DEEP)], U, "other_depth", id="the deep pass"),
        pytest.param([window(2), window(12, 80)], N, None, id="good again"),
        pytest.param([window(12, 80), window(2)], N, None, id="good again, in the wrong order"),
        pytest.param([window(2, 80), window(12)], Y, None, id="bad now"),
        pytest.param([unjudged(2), window(12, 80)], Y, None, id="bad, and nothing contradicts it"),
        pytest.param([unjudged(2), window(12)], U, "inconclusive", id="good, and then nothing"),
        pytest.param([unjudged(2), window(31, 80)], U, "inconclusive", id="bad, but too long ago"),
        pytest.param([window(2, 80), window(2, 80)], Y, None, id="twice the same"),
    ],
)
def test_windows(windows: list[ScorePoint], state: Tri, note: str | None) -> None:
    found = judged(*windows)
    assert (found.state, [n.code for n in found.notes]) == (state, [note] if note else [])
    assert len(found.inputs) == len({one.score_id for one in windows})


@pytest.mark.parametrize(
    ("change", "more", "state"),
    [
        (12, {}, Y),  # the window is from 12 to 2 minutes ago
        (11, {}, U),
        (1, {}, U),
        (11, {"start": ""}, Y),  # of an older release: only its end is known
        (1, {"start": ""}, U),
    ],
)
def test_a_window_that_began_before_the_last_change_tells_of_two_deployments(
    change: float, more: dict[str, Any], state: Tri
) -> None:
    found = judged(window(2, 80, **more), last_change_at=ago(change))
    assert found.state is state
    if state is U:
        assert "before the last change" in found.notes[0].sentence


def test_the_limits_are_the_services_own() -> None:
    limits = TriggerLimits(low_quality_rate=0.3, min_rows=1000)
    assert judge_log(evidence(scores=(window(2, 80),)), limits).state is U
    limits = TriggerLimits(low_quality_rate=0.3)
    assert judge_log(evidence(scores=(window(2, 80),)), limits).state is N


def test_every_input_is_kept_with_what_it_says() -> None:
    found = judged(window(2, 80), window(12, 90), window(45, 90), window(1, 5, depth=Depth.DEEP))
    assert found.sentence == "20.0% of 400 answers were low quality, limit 5.0%"
    told = {one["name"]: one["why_not"] for one in found.inputs}
    assert told == {
        "quick-1": "is of the deep pass, which covers an hour",
        "quick-2": "",
        "quick-12": "a newer window decides",
        "quick-45": "is 45 min old, allowed are 30 min",
    }
    assert found.inputs[1]["value"] == "20.0% low of 400 answers"


@given(
    st.lists(
        st.builds(
            window,
            st.floats(-50, 50),
            rows=st.integers(0, 2000),
            share=st.none() | st.floats(),
            effective_rows=st.none() | st.floats(),
        ),
        max_size=4,
    )
)
def test_whatever_was_stored_is_judged_and_yes_is_above_the_limit(
    windows: list[ScorePoint],
) -> None:
    found = judged(*windows)
    if found.state is Y:
        deciding = [one for one in found.inputs if one["counted"] and one["state"] == "yes"]
        assert deciding[0]["share"] > 0.05


def test_what_is_not_proven_says_what_would_be() -> None:
    assert "not proven, that takes 36 low-quality" in judged(window(2, 35)).sentence
