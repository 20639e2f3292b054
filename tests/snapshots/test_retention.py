"""What stays, what goes, and the reason told for each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.snapshots.manifest import ImageRecord
from quality_lib.snapshots.ports import ALIASES, Health, SnapshotEntry
from quality_lib.snapshots.retention import Aged, Kind, judge_by_age, judge_snapshots

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def entry(number: int = 1, *, days: float = 100, **more: Any) -> SnapshotEntry:
    plain: dict[str, Any] = {
        "snapshot_id": f"{number:064x}",
        "service": "chat",
        "number": number,
        "created_at": (NOW - timedelta(days=days)).isoformat(),
        "created_by": "ada",
        "health": Health.DEGRADED,
        "health_at": "",
        "aliases": (),
        "weights_root_sha256": "",
        "args_sha256": None,
        "image": ImageRecord(),
        "vllm_version": None,
        "golden_digest": None,
        "files": (),
        "url": "",
    }
    return SnapshotEntry(**plain | more)


def judge(*entries: SnapshotEntry, **more: Any) -> list[tuple[bool, str]]:
    rules: dict[str, Any] = {"now": NOW, "keep_healthy": 2, "keep_days": 30} | more
    return [(one.is_removed, one.reason) for one in judge_snapshots(entries, **rules)]


@pytest.mark.parametrize(
    ("changes", "is_removed", "reason"),
    [
        ({}, True, "degraded, 100.0 days old, nothing holds it"),
        ({"health": Health.PENDING}, True, "pending, 100.0 days old"),
        ({"health": Health.RETIRED}, True, "retired, 100.0 days old"),
        ({"days": 29.9}, False, "29.9 days old, kept for 30"),
        ({"days": 30}, True, "30.0 days old"),
        ({"days": -1}, False, "kept for 30"),
        ({"is_pinned": True}, False, "it is pinned"),
        ({"created_at": "who knows"}, False, "its age is not known"),
        ({"created_at": ""}, False, "its age is not known"),
        ({"created_at": "2025-01-01T00:00:00"}, True, "days old"),
        ({"health": Health.HEALTHY}, False, "healthy number 1 of the 2 newest"),
        *[({"aliases": (alias,)}, False, f"it is '{alias}'") for alias in ALIASES],
    ],
)
def test_one_snapshot(changes: dict[str, Any], is_removed: bool, reason: str) -> None:
    ((removed, why),) = judge(entry(**changes))
    assert removed is is_removed
    assert reason in why


def test_the_newest_healthy_ones_stay_whatever_their_order_and_age() -> None:
    healthy = [entry(n, days=500, health=Health.HEALTHY) for n in (3, 1, 2)]
    assert [removed for removed, _ in judge(*healthy)] == [False, True, False]
    assert not judge(healthy[1], keep_healthy=1)[0][0], "the last healthy one"


def test_what_an_open_incident_names_stays() -> None:
    ((removed, reason),) = judge(entry(7), in_use={f"{7:064x}"})
    assert (removed, reason) == (False, "an open incident names it")


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(Health)),
            st.floats(-5, 400),
            st.sampled_from([(), ("serving",), ("previous",), ("last-healthy",)]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(1, 5),
)
def test_what_must_stay_stays_and_a_healthy_one_is_always_left(
    made: list[tuple[Health, float, tuple[str, ...], bool]], keep: int
) -> None:
    entries = [
        entry(n, days=days, health=health, aliases=aliases, is_pinned=pinned)
        for n, (health, days, aliases, pinned) in enumerate(made, 1)
    ]
    judged = judge_snapshots(entries, now=NOW, keep_healthy=keep, keep_days=30)
    assert [one.name for one in judged] == [one.snapshot_id for one in entries]
    gone = {one.name for one in judged if one.is_removed}
    assert all(one.reason for one in judged)
    assert not [e for e in entries if e.snapshot_id in gone and (e.aliases or e.is_pinned)]
    healthy = [e for e in entries if e.health is Health.HEALTHY]
    left = [e for e in healthy if e.snapshot_id not in gone]
    assert len(left) >= min(keep, len(healthy))
    # What is left is judged the same again: a prune that broke off goes on where it stopped.
    rest = [e for e in entries if e.snapshot_id not in gone]
    again = judge_snapshots(rest, now=NOW, keep_healthy=keep, keep_days=30)
    assert not [one for one in again if one.is_removed]


@pytest.mark.parametrize(
    ("thing", "is_removed", "reason"),
    [
        (Aged("x", NOW - timedelta(days=15)), True, "15.0 days old, kept for 14"),
        (Aged("x", NOW - timedelta(days=13)), False, "13.0 days old, kept for 14"),
        (Aged("x", None), False, "its age is not known"),
        (Aged("x", NOW - timedelta(days=99), held_by="open"), False, "open"),
    ],
)
def test_things_by_age(thing: Aged, is_removed: bool, reason: str) -> None:
    (one,) = judge_by_age(Kind.RUN, "chat", [thing], now=NOW, keep_days=14)
    assert (one.is_removed, one.reason) == (is_removed, reason)


def test_the_size_and_time_are_handed_on() -> None:
    old = Aged("x", NOW - timedelta(days=15), 42)
    (one,) = judge_by_age(
        Kind.LOG,
        "chat",
        [
            old,
        ],
        now=NOW,
        keep_days=14,
    )
    assert (one.size, one.at) == (42, "2026-02-14T12:00:00+00:00")
    assert replace(one, size=None).kind is Kind.LOG
