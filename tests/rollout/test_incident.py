"""What the history of incidents says of the next one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quality_lib.rollout.incident import IncidentHistory, incident_id
from tests.rollout.evidence_builders import KEY, NOW, ago, history, incident


@pytest.mark.parametrize(
    ("key", "closed", "name"),
    [(KEY, 0, "chat-d41d8cd9-0"), (KEY, 2, "chat-d41d8cd9-2"), (None, 1, "chat-unknown-1")],
)
def test_the_name_counts_closed_incidents(key: str | None, closed: int, name: str) -> None:
    records = [incident(n, incident_id=f"chat-before-{n}") for n in range(closed)]
    assert incident_id("chat", key, history(*records)) == name


def test_two_who_decide_at_once_name_the_same_incident_whatever_order_they_see() -> None:
    records = [incident(n, incident_id=f"chat-x-{n}", opened_at=ago(2900 - n)) for n in range(5)]
    one, other = history(*records), history(*reversed(records + records[:2]))
    assert incident_id("chat", KEY, one) == incident_id("chat", KEY, other)


def test_a_name_is_never_given_twice_even_when_the_history_was_cut_short() -> None:
    cut = history(incident(7), incident(2, incident_id="chat-d41d8cd9-1"))
    assert incident_id("chat", KEY, cut) == "chat-d41d8cd9-2"
    cut = history(incident(1), incident(2))
    assert incident_id("chat", KEY, cut) == "chat-d41d8cd9-3"


def test_other_services_do_not_count() -> None:
    kept = IncidentHistory.of("chat", [incident(0, service="draw"), incident(1)])
    assert [record.service for record in kept.records] == ["chat"]


def test_of_two_records_of_one_incident_the_closed_one_counts() -> None:
    going = incident(0, state="rolling", closed_at=None)
    for records in ((going, incident(0)), (incident(0), going)):
        assert history(*records).in_progress is None
        assert len(history(*records).records) == 1


def test_of_two_in_progress_the_first_one_opened_is_it() -> None:
    first = incident(0, state="open", closed_at=None, opened_at=ago(9))
    second = incident(1, state="rolling", closed_at=None, opened_at=ago(3))
    assert history(second, first).in_progress == first


@pytest.mark.parametrize("state", ["done", "aborted", "failed"])
def test_any_end_cools_down(state: str) -> None:
    ended = history(incident(0, state=state, closed_at=ago(10)), incident(1, closed_at=ago(500)))
    assert ended.last_end == ago(10)
    assert ended.cool_down_until(60) == NOW + timedelta(minutes=50)
    assert history().cool_down_until(60) is None
    assert history(incident(0, state="open", closed_at=None)).last_end is None


def test_a_closed_incident_without_its_end_ended_at_its_beginning_at_the_earliest() -> None:
    assert history(incident(0, closed_at=None, opened_at=ago(20))).last_end == ago(20)


def test_what_counts_for_the_day() -> None:
    records = [incident(n, opened_at=ago(m)) for n, m in enumerate([5, 700, 1439, 1440, 9000])]
    assert history(*records).opened_within(NOW) == 3
