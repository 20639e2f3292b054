"""Evidence from the stores to a decision: in memory for every turn, on a real MLflow once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from quality_lib import wiring
from quality_lib.adapters.files.journal import Incidents
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.jobs.decide import Decided, decide_service, record_of
from quality_lib.jobs.rollback_run import incident_record
from quality_lib.records import Tri
from quality_lib.rollout.decision import Action
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.journal import Done, Journal
from quality_lib.rollout.machine import steps_of
from quality_lib.rollout.strategy import StepName
from quality_lib.snapshots.ports import SERVING, Health
from tests.jobs.decider import Decider, StoredDecider
from tests.rollout.plans import journal


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredDecider:
    service = StoredDecider(tmp_path)
    service.serve(monkeypatch)
    return service


def decided(service: Decider, *, is_dry_run: bool = False) -> Decided:
    return decide_service(
        service.settings, service.name, is_dry_run=is_dry_run, clock=lambda: service.now
    )


def make_bad(chat: StoredDecider) -> None:
    """Two bad golden runs, a bad window, a silent engine, and a snapshot to go back to."""
    key = chat.key
    for minutes in (65, 5):
        chat.add_run(minutes, 0.3, key)
    chat.add_window(2, 320, 80)
    chat.signals = [chat.signal(Tri.NO)]
    kept = chat.snapshots.create(chat.name, chat.healthy_manifest(), {}, Health.HEALTHY)
    chat.snapshots.set_alias(chat.name, SERVING, kept.snapshot_id, "good", "ada")


def test_a_bad_service_opens_one_incident_however_often_it_is_decided(chat: StoredDecider) -> None:
    make_bad(chat)
    first = decided(chat)
    assert (first.decision.action, first.decision.policy_state) == (Action.ROLLBACK, Tri.YES)
    incident = chat.incidents.find(first.decision.incident_id or "")
    assert incident is not None
    assert incident == first.incident
    assert incident.incident_id == f"chat-{chat.key[:8]}-0"
    assert (incident.state, incident.bad_deployment_key) == ("open", chat.key)
    assert incident.target_snapshot_id == chat.snapshots.list("chat")[0].snapshot_id
    chat.now += timedelta(minutes=1)
    again = decided(chat)
    assert again.decision.incident_id == incident.incident_id
    assert chat.incidents.history("chat") == (incident,)


def test_the_incident_keeps_every_input(chat: StoredDecider) -> None:
    make_bad(chat)
    kept = chat.incidents.decision(decided(chat).decision.incident_id or "")
    by_name = {condition["name"]: condition for condition in kept["conditions"]}
    assert {name: condition["state"] for name, condition in by_name.items()} == {
        "A": "yes",
        "B": "yes",
        "C": "no",
    }
    assert [one["mean_similarity"] for one in by_name["A"]["inputs"]] == [0.3, 0.3]
    assert by_name["B"]["inputs"][0]["share"] == 0.2
    assert by_name["C"]["inputs"][0]["name"] == "engine_health"
    assert (kept["policy_values"], kept["deployment_key"]) == ("(yes and yes) or no", chat.key)


def rolling(chat: StoredDecider, last: StepName) -> Journal:
    """Return a rollback of the service that stopped after a step, 20 minutes ago."""
    then = chat.now - timedelta(minutes=20)
    steps = steps_of(journal())
    end = max(i for i, step in enumerate(steps) if step.name is last)
    done = tuple(Done(s.name, s.index, then, 1.0, "done") for s in steps[: end + 1])
    begun = journal(state="rolling", done=done)
    chat.incidents.open(incident_record(begun), {})
    return Incidents(chat.settings.stores.work_dir, "chat").folder("chat-abc-0").write(begun, then)


def test_a_rollback_whose_driver_died_is_told_with_the_command_that_ends_it(
    chat: StoredDecider,
) -> None:
    make_bad(chat)
    rolling(chat, StepName.MOVE)
    found = decided(chat)
    assert found.decision.action is Action.ALERT
    command = "quality rollback reconcile --service chat --older-than-minutes 0"
    assert "its target serves, 'retire' and what follows is missing" in found.decision.headline
    assert command in found.decision.headline
    kept = record_of(found)["history"]["left_behind"]
    assert (kept["incident_id"], kept["end"], kept["next"], kept["command"]) == (
        "chat-abc-0", "forward", "retire", command,
    )  # fmt: skip
    with Incidents(chat.settings.stores.work_dir, "chat").locked():
        assert decided(chat).decision.action is Action.NONE, "somebody is at work"


@pytest.mark.parametrize("last", [StepName.VALIDATE, StepName.CHECK])
def test_one_that_may_wait_for_an_approval_is_not_left_behind(
    chat: StoredDecider, last: StepName
) -> None:
    make_bad(chat)
    rolling(chat, last)
    assert decided(chat).decision.action is Action.NONE
    chat.now += timedelta(hours=1)
    assert "go back to its starting weights" in decided(chat).decision.headline


def test_a_rollback_on_another_machine_is_not_judged_by_its_journal(chat: StoredDecider) -> None:
    make_bad(chat)
    begun = rolling(chat, StepName.MOVE)
    folder = Incidents(chat.settings.stores.work_dir, "chat").folder(begun.incident_id)
    (folder.path / "journal.json").unlink()
    assert decided(chat).decision.action is Action.NONE


def test_a_dry_run_writes_nothing(chat: StoredDecider) -> None:
    make_bad(chat)
    found = decided(chat, is_dry_run=True)
    assert (found.decision.action, found.incident) == (Action.ROLLBACK, None)
    assert chat.incidents.history("chat") == ()


def test_an_alert_opens_no_incident(chat: StoredDecider) -> None:
    make_bad(chat)
    chat.configure(mode="alert-only")
    assert decided(chat).decision.action is Action.ALERT
    assert chat.incidents.history("chat") == ()


@pytest.mark.parametrize(
    ("mode", "route", "code"), [("alert-only", "nginx", "alert_only"), ("auto", "none", "no_route")]
)
def test_what_the_configuration_suppresses(
    chat: StoredDecider, mode: str, route: str, code: str
) -> None:
    make_bad(chat)
    chat.configure(mode=mode, route=route)
    assert record_of(decided(chat))["reason_codes"] == [code]


def test_after_the_end_of_an_incident_nothing_from_before_counts(chat: StoredDecider) -> None:
    make_bad(chat)
    opened = decided(chat).incident
    assert opened is not None
    chat.now += timedelta(minutes=1)
    closed = IncidentRecord(**{**vars(opened), "state": "done", "closed_at": chat.now})
    chat.incidents.update(closed)
    chat.now += timedelta(minutes=1)
    found = decided(chat)
    assert found.gathered.evidence.last_change_at == closed.closed_at
    assert {c.name: c.state for c in found.decision.conditions} == {
        "A": Tri.UNKNOWN,
        "B": Tri.UNKNOWN,
        "C": Tri.UNKNOWN,
    }
    assert found.decision.action is Action.WAIT


def test_a_new_deployment_is_not_judged_by_the_old_one(chat: StoredDecider) -> None:
    make_bad(chat)
    (chat.folder / "model" / "model.safetensors").write_bytes(b"other weights")
    found = decided(chat)
    states = {c.name: c.state for c in found.decision.conditions}
    # The engine's signals are read now, from what serves now.
    assert states == {"A": Tri.UNKNOWN, "B": Tri.UNKNOWN, "C": Tri.NO}
    assert found.decision.action is Action.WAIT


def test_a_dead_server_leaves_the_rest_of_the_evidence(chat: StoredDecider) -> None:
    make_bad(chat)
    chat.server = OutsideFailure("nobody answers")
    chat.signals = OutsideFailure("nobody answers")
    found = decided(chat)
    assert found.decision.policy_state is Tri.YES  # A and B hold, whatever C would say
    assert len(found.gathered.problems) == 2
    assert "nobody answers" in found.gathered.problems[0]


def test_a_service_of_which_nothing_is_known_waits(chat: StoredDecider) -> None:
    chat.server = OutsideFailure("nobody answers")
    found = decided(chat)
    assert (found.decision.action, found.decision.incident_id) == (Action.WAIT, None)
    assert found.gathered.evidence.deployment_key is None


def test_an_unknown_service_is_bad_input(chat: StoredDecider) -> None:
    with pytest.raises(BadInput, match="use one of: chat"):
        decide_service(chat.settings, "caht")


@pytest.mark.stack
def test_on_a_real_mlflow(mlflow_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published results to one open incident, and none more; then closed, and cooling down."""
    chat = Decider(tmp_path, "decide-story", mlflow_uri)
    chat.serve(monkeypatch)
    settings = chat.settings
    results, scores = wiring.result_store(settings), wiring.score_store(settings)
    incidents = wiring.incident_store(settings)
    assert decided(chat).decision.action is Action.WAIT  # no experiment is there yet
    results.publish(chat.golden(125, 0.98, "the-healthy-one"), {})
    results.publish(chat.golden(65, 0.31, chat.key), {})
    results.publish(chat.golden(5, 0.29, chat.key), {})
    scores.publish(chat.score(2, 320, 80), {})
    chat.signals = [chat.signal(Tri.NO)]
    assert record_of(decided(chat))["reason_codes"] == ["no_target"]
    kept = wiring.snapshot_store(settings).create(
        chat.name, chat.healthy_manifest(), {}, Health.HEALTHY
    )
    with ThreadPoolExecutor(2) as both_at_once:
        first, second = both_at_once.map(lambda _: decided(chat), range(2))
    assert first.decision.action is second.decision.action is Action.ROLLBACK
    assert first.decision.incident_id == second.decision.incident_id
    assert first.decision.target_snapshot_id == kept.snapshot_id
    assert first.gathered.evidence.last_change_at == chat.now - timedelta(minutes=65)
    stored = incidents.history(chat.name)
    assert [one.incident_id for one in stored] == [f"decide-story-{chat.key[:8]}-0"]
    recorded = incidents.decision(stored[0].incident_id)
    assert recorded["headline"] == first.decision.headline
    assert recorded["conditions"][1]["inputs"][0]["effective_rows"] == 400.0
    chat.now += timedelta(minutes=3)
    incidents.update(
        IncidentRecord(**{**vars(stored[0]), "state": "failed", "closed_at": chat.now})
    )
    chat.now += timedelta(seconds=30)
    chat.signals = [chat.signal(Tri.YES)]
    third = decided(chat)
    assert third.decision.action is Action.ALERT
    assert third.decision.incident_id == f"decide-story-{chat.key[:8]}-1"
    assert record_of(third)["reason_codes"][0] == "cool_down"


@pytest.mark.stack
def test_without_its_history_nothing_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = Decider(tmp_path)
    chat.serve(monkeypatch)
    with pytest.raises(OutsideFailure, match="does not answer"):
        decided(chat)
