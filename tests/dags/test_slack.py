"""An alert as a Slack message, and its way through the provider's webhook hook to a local receiver."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from quality_airflow.assets import HEALTH
from quality_airflow.events import Event, Facts, build
from quality_airflow.notifier import QualityNotifier
from quality_airflow.slack import MAX_REASONS, message

from tests.dags.conftest import Library, Receiver
from tests.dags.fake_context import NOW, Stores, Ti

BAD = {
    "service": "chat",
    "verdict": "bad",
    "summary": "failed",
    "headline": "chat says nonsense",
    "reasons": [{"code": "c", "sentence": f"reason {n}"} for n in range(9)],
}


def shown(blocks: list[dict[str, Any]]) -> str:
    return json.dumps(blocks, ensure_ascii=False)


@pytest.mark.parametrize("event", Event)
def test_every_event_is_a_message_even_without_any_facts(event: Event) -> None:
    text, blocks = message(build(event, Facts("chat", NOW)))
    assert text.startswith("chat: ")
    assert "None" not in text + shown(blocks)
    assert [block["type"] for block in blocks] == ["section", "context"]


def test_an_empty_event_is_still_a_message() -> None:
    assert message({})[0]


def test_a_message_is_short_says_what_and_why_and_links_in_the_order_of_use() -> None:
    links = {
        "airflow": "http://a/?x=1&y=2",
        "report": "http://m/report",
        "approve": "http://a/|approve",
    }
    event = build(Event.QUALITY_BAD, Facts("chat", NOW, run=BAD, links=links))
    text, (section, foot) = message(event)
    assert text == "chat: answers are bad. chat says nonsense"
    body = section["text"]["text"]
    assert body.splitlines()[0] == ":red_circle: *chat: answers are bad*"
    assert body.count("• ") == MAX_REASONS
    assert foot["elements"][0]["text"] == (
        "<http://a/%7Capprove|Approve or reject>  ·  <http://m/report|Report>  ·  "
        "<http://a/?x=1&amp;y=2|Airflow>  ·  2026-03-01 12:00 UTC"
    )


def test_what_a_model_said_cannot_ping_anybody_or_fake_a_link() -> None:
    run = {**BAD, "headline": "<!channel> <http://evil|Report> & more"}
    text, blocks = message(build(Event.QUALITY_BAD, Facts("<!here>", NOW, run=run)))
    for words in (text, blocks[0]["text"]["text"]):
        assert "<" not in words
        assert "&lt;!channel&gt;" in words


@pytest.mark.parametrize("size", [10, 100_000])
def test_no_text_is_longer_than_slack_takes(size: int) -> None:
    run = {"headline": "x" * size, "reasons": [{"sentence": "y" * size}] * 20}
    text, blocks = message(build(Event.QUALITY_BAD, Facts("chat", NOW, run=run)))
    assert len(text) < 3000
    assert len(blocks[0]["text"]["text"]) < 3000


def test_a_reminder_says_since_when() -> None:
    event = build(Event.NO_DATA, Facts("chat", NOW), reminder=True)
    assert "still so, since 2026-03-01 12:00 UTC" in shown(message(event)[1])


def test_a_healthy_but_changed_service_is_not_called_bad() -> None:
    run = {**BAD, "summary": "healthy", "changed": "yes"}
    assert "answers have changed" in message(build(Event.QUALITY_BAD, Facts("c", NOW, run=run)))[0]


def tell(event: str, stores: Stores, **run: Any) -> None:
    """Run the callback as Airflow does at the end of a task."""
    task = SimpleNamespace(run={**BAD, **run}, published=None)
    context = {"task": task, "ti": Ti(), "asset_state_store": stores}
    QualityNotifier(event).notify(context)


@pytest.fixture
def both(library: Library, receiver: Receiver, slack: Receiver) -> tuple[Receiver, Receiver]:
    library.configure("chat", slack=True)
    return receiver, slack


@pytest.mark.stack
def test_json_and_slack_are_told_the_same_once(both: tuple[Receiver, Receiver]) -> None:
    receiver, slack = both
    stores = Stores()
    for _ in range(3):
        tell("quality_bad", stores)
    assert [event["name"] for event in receiver.events] == ["quality_bad"]
    assert [event["text"] for event in slack.events] == [
        "chat: answers are bad. chat says nonsense"
    ]
    assert slack.paths == ["/services/T000/B000/very-secret-token"]
    assert slack.events[0]["blocks"][0]["type"] == "section"


@pytest.mark.stack
def test_a_dead_slack_is_counted_told_again_and_makes_no_other_channel_repeat_itself(
    both: tuple[Receiver, Receiver],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from airflow.sdk.observability import stats

    receiver, slack = both
    counted: list[str] = []
    monkeypatch.setattr(stats, "incr", counted.append)
    stores = Stores()
    slack.status = 500
    tell("quality_bad", stores)
    slack.status = 200
    tell("quality_bad", stores)
    tell("quality_bad", stores)
    assert len(receiver.events) == 1
    assert len(slack.events) == 2, "the one that was refused, and the one that arrived"
    assert counted == ["quality.alerts.failed"]
    assert "very-secret" not in "".join(capfd.readouterr())


@pytest.mark.stack
def test_a_slack_that_refuses_connections_fails_nothing(
    both: tuple[Receiver, Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, _ = both
    connection = {"conn_type": "slackwebhook", "host": "http://127.0.0.1:9", "password": "x"}
    monkeypatch.setenv("AIRFLOW_CONN_QUALITY_SLACK", json.dumps(connection))
    tell("quality_bad", Stores())
    assert len(receiver.events) == 1


@pytest.mark.stack
def test_a_broken_configuration_is_told_to_the_channels_that_it_named_last(
    both: tuple[Receiver, Receiver], library: Library
) -> None:
    _, slack = both
    stores = Stores()
    tell("quality_bad", stores)
    library.config.write_text("services: {}")
    tell("checker_broken", stores)
    assert [event["text"].split(".")[0] for event in slack.events] == [
        "chat: answers are bad",
        "chat: the check itself failed",
    ]


def test_a_callback_with_nothing_in_its_context_fails_nothing() -> None:
    QualityNotifier("rollback_step_failed", "rollback").notify({})


@pytest.mark.parametrize(
    ("event", "run", "told"),
    [
        ("decided", {"action": "alert", "incident_id": "i"}, "rollback_advised"),
        ("decided", {"action": "wait"}, None),
        ("decided", {"action": "rollback", "incident_id": "i"}, None),
        ("decided", {"action": "none"}, None),
        ("went_back", {}, None),
        ("went_back", {"went_back": True, "incident_id": "i"}, "rollback_aborted"),
        ("rollback_step_failed", {"state": "abort_requested"}, None),
        ("rollback_step_failed", {"state": "bad", "incident_id": "i"}, "rollback_step_failed"),
        ("stale_data", {}, "stale_data"),
        ("fresh_data", {}, None),
    ],
)
@pytest.mark.stack
def test_what_is_told_of_a_result(
    both: tuple[Receiver, Receiver], event: str, run: dict[str, Any], told: str | None
) -> None:
    receiver, _ = both
    tell(event, Stores(), **run)
    assert [sent["name"] for sent in receiver.events] == ([told] if told else [])


@pytest.mark.stack
def test_each_step_of_an_incident_is_told_once(both: tuple[Receiver, Receiver]) -> None:
    receiver, _ = both
    stores = Stores()
    for step in ("validate", "start", "start", "move 25 %"):
        tell("rollback_step", stores, incident_id="chat-abc-0", step=step)
    assert [event["step"] for event in receiver.events] == ["validate", "start", "move 25 %"]


@pytest.mark.stack
def test_no_target_left_is_critical(both: tuple[Receiver, Receiver]) -> None:
    receiver, _ = both
    tell("rollback_step_failed", Stores(), incident_id="i", state="no_target")
    assert receiver.events[0]["severity"] == "critical"


def test_the_state_store_is_that_of_the_health_asset() -> None:
    stores = Stores()
    tell("no_data", stores)
    assert list(stores) == [HEALTH]
