"""The post-mortem from whole and from partial facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from quality_lib.rollout.ports import Served
from quality_lib.rollout.post_mortem import numbers, post_mortem
from tests.rollout.post_mortem_builders import AT, facts, nothing, phases, record


@pytest.mark.parametrize(
    ("state", "tone", "headline"),
    [
        ("done", "healthy", "chat is back on snapshot 5afe5afe5afe"),
        ("aborted", "failed", "The rollback of chat was aborted"),
        ("failed", "failed", "chat could not be taken back"),
        ("open", "inconclusive", "The incident of chat is not over"),
        ("rolling", "inconclusive", "The incident of chat is not over"),
    ],
)
def test_how_it_ended(state: Any, tone: str, headline: str) -> None:
    report = post_mortem(facts(record=record(state=state)))
    assert (report.tone, report.headline) == (tone, headline)


def test_numbers_are_added_up_and_timed() -> None:
    report = post_mortem(facts())
    assert report.totals is not None
    assert (report.totals.requests, report.totals.failed, report.totals.cut) == (400, 1, 0)
    assert report.totals.slowest_s == 7.2
    assert report.decided_to_full_s == 5 * 60 + 90
    assert report.duration_s == 560
    assert numbers(report) == {
        "decided_to_full_s": 390.0,
        "duration_s": 560.0,
        "requests": 400.0,
        "requests_failed": 1.0,
        "requests_cut": 0.0,
        "slowest_s": 7.2,
        "candidates_rejected": 1.0,
        "rolled_back": 1.0,
    }


def test_requests_that_nobody_took_count_as_well() -> None:
    lost = replace(phases()[0], served={"-": Served(7, 7, 0, 0.1, None)})
    report = post_mortem(facts(phases=(lost,)))
    assert report.totals is not None
    assert (report.totals.requests, report.totals.failed) == (7, 7)


def test_without_the_last_step_the_target_never_had_it_all() -> None:
    assert post_mortem(facts(phases=phases()[:3])).decided_to_full_s is None
    assert post_mortem(facts(table_before=None)).decided_to_full_s is None


def test_what_is_whole_misses_nothing() -> None:
    assert post_mortem(facts()).missing == ()


def test_from_nothing_but_the_record_it_says_what_is_missing() -> None:
    report = post_mortem(nothing(state="aborted", closed_at=None))
    assert report.totals is None
    assert report.duration_s is None
    assert report.decided_to_full_s is None
    told = "\n".join(report.missing)
    for part in (
        "decision",
        "golden check",
        "Requests",
        "files on disk",
        "device memory",
        "evidence",
    ):
        assert part in told
    assert numbers(report) == {"candidates_rejected": 0.0, "rolled_back": 0.0}


def test_why_it_was_aborted_is_told() -> None:
    report = post_mortem(
        facts(record=record(state="aborted"), end_reason="core cases failed on 'chat-r1'")
    )
    assert "still serves. Core cases failed on 'chat-r1'." in report.meaning


@pytest.mark.parametrize(
    ("more", "command"),
    [
        ({}, "quality snapshot verify 5afe5afe5afe --service chat --weights /models/chat"),
        ({"record": record(state="aborted")}, "quality rollback plan --service chat --dry-run"),
        ({"record": record(state="failed")}, "quality snapshot list --service chat"),
        ({"record": record(service="two words")}, "--service 'two words'"),
    ],
)
def test_what_to_do_next(more: dict[str, Any], command: str) -> None:
    steps = post_mortem(facts(**more)).next_steps
    assert any(command in step.command for step in steps)
    assert all(step.sentence for step in steps)


def test_evidence_that_did_not_leave_the_machine_is_told() -> None:
    kept = replace(facts().evidence[0], uri="")
    steps = post_mortem(facts(evidence=(kept,))).next_steps
    assert any("Take the evidence of old off the machine" in step.sentence for step in steps)


def test_a_closed_time_without_an_end_is_no_duration() -> None:
    assert post_mortem(facts(record=record(closed_at=None))).duration_s is None
    later = record(closed_at=AT + timedelta(hours=2))
    assert post_mortem(facts(record=later)).duration_s == 7200
