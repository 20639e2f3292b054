"""When evidence counts by its time, and since when what serves serves."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quality_lib.rollout.evidence import last_change, moment, span
from tests.rollout.evidence_builders import KEY, NOW, ago, run


@pytest.mark.parametrize(
    ("keys", "last_end", "expected"),
    [
        ([KEY, KEY], None, None),
        ([KEY, KEY], ago(30), ago(30)),
        ([KEY, KEY, "before"], None, ago(120)),
        ([KEY, "before", KEY], None, ago(60)),
        ([KEY, "before"], ago(30), ago(30)),
        ([KEY, "before"], ago(300), ago(60)),
        (["before", "before"], None, NOW),
        ([KEY, "", "before"], None, ago(60)),
        ([], None, None),
        ([], ago(30), ago(30)),
    ],
)
def test_the_last_change(
    keys: list[str], last_end: datetime | None, expected: datetime | None
) -> None:
    runs = [run(60 * (n + 1), deployment_key=key) for n, key in enumerate(keys)]
    assert last_change(runs, KEY, last_end, NOW) == expected


def test_of_nobody_knows_what_only_incidents_tell() -> None:
    assert last_change([run(60, deployment_key="before")], None, None, NOW) is None
    assert last_change([run(60, deployment_key="before")], None, ago(5), NOW) == ago(5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-14T12:00:00+00:00", NOW),
        ("2026-03-14T12:00:00Z", NOW),
        ("2026-03-14T12:00:00", NOW),
        ("2026-03-14T14:00:00+02:00", NOW),
        ("noon", None),
        ("", None),
    ],
)
def test_moments(text: str, expected: datetime | None) -> None:
    assert moment(text) == expected


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (40, "40 s"), (-300, "5 min"), (3600 * 3.5, "3.5 h"), (86_400 * 3, "3 d")],
)
def test_lengths_of_time_for_people(seconds: float, words: str) -> None:
    assert span(timedelta(seconds=seconds)) == words
