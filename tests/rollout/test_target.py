"""Which snapshots a service could go back to."""

from __future__ import annotations

import pytest

from quality_lib.errors import BadInput
from quality_lib.rollout.target import candidates, condemned
from quality_lib.snapshots.ports import Health
from tests.rollout.evidence_builders import ago, entry, history, incident, key_of

FIVE = (
    entry(1),
    entry(4, Health.PENDING, aliases=("candidate",)),
    entry(2, aliases=("serving",)),
    entry(5, Health.DEGRADED),
    entry(3),
)


def numbers(**asked: object) -> list[int]:
    options = {"bad_deployment_key": "unregistered", **asked}
    return [found.number for found in candidates(FIVE, **options)]  # type: ignore[arg-type]


def test_healthy_ones_newest_first_and_never_a_bad_one() -> None:
    assert numbers() == [3, 2, 1]
    assert numbers(bad_deployment_key=key_of(3)) == [2, 1]
    assert numbers(bad_deployment_key=None) == [3, 2, 1]
    assert numbers(bad_snapshot_ids={entry(2).snapshot_id, entry(3).snapshot_id}) == [1]
    assert candidates((), bad_deployment_key=None) == ()


def test_the_snapshot_that_should_serve_is_a_target_when_something_else_serves() -> None:
    """A damaged copy is another deployment; the alias ``serving`` still names the healthy one."""
    only = (entry(2, aliases=("serving",)),)
    assert candidates(only, bad_deployment_key="damaged") == only
    assert candidates(only, bad_deployment_key=key_of(2)) == ()


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ("serving", 2),
        (entry(1).snapshot_id, 1),
        ("05abab", 5),
        ("candidate", 4),
        ("3", 3),
        ("#5", 5),
    ],
)
def test_who_names_one_gets_that_one_alone(asked: str, number: int) -> None:
    assert numbers(asked_ref=asked) == [number]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("serving", "found bad"),
        ("ffffff", "there is no snapshot 'ffffff' of 'chat'"),
        ("previous", "carries the alias 'previous'"),
    ],
)
def test_a_wrong_name_is_told(asked: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        numbers(bad_deployment_key=key_of(2), asked_ref=asked)


def test_an_incident_condemns_until_the_snapshot_is_called_healthy_again() -> None:
    by_key = incident(0, bad_deployment_key=key_of(3), opened_at=ago(60))
    by_id = incident(1, bad_snapshot_id=entry(1).snapshot_id, opened_at=ago(60))
    found = condemned(FIVE, history(by_key, by_id))
    assert found == {entry(1).snapshot_id, entry(3).snapshot_id}
    healed = (entry(3, health_at=ago(10).isoformat()), entry(1, health_at=""))
    assert condemned(healed, history(by_key, by_id)) == {entry(1).snapshot_id}
    assert condemned(FIVE, history()) == frozenset()
