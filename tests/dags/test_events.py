"""One alert as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from quality_airflow.events import MAX_ITEMS, MAX_TEXT, SEVERITY, Event, Facts, build

AT = datetime(2026, 3, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize("event", Event)
def test_every_event_can_be_built_from_nothing(event: Event) -> None:
    body = build(event, Facts("chat", AT))
    assert json.loads(json.dumps(body)) == body
    assert body["severity"] == SEVERITY[event]
    assert body["headline"]


@pytest.mark.parametrize(
    ("summary", "changed", "severity"),
    [("degraded", "no", "warning"), ("degraded", "yes", "critical"), ("failed", "no", "critical")],
)
def test_severity_follows_the_verdict(summary: str, changed: str, severity: str) -> None:
    facts = Facts("chat", AT, run={"summary": summary, "changed": changed})
    assert build(Event.QUALITY_BAD, facts)["severity"] == severity


def test_credentials_in_addresses_and_long_texts_are_cut() -> None:
    run = {
        "reasons": [{"code": "c", "sentence": "x" * 5000}] * 50,
        "worst_cases": ["case"] * 50,
    }
    links = {"report": "http://user:secret@mlflow:5000/#/run", "mlflow": ""}
    headline = "no answer from https://key:secret@host/v1"
    body = build(Event.QUALITY_BAD, Facts("chat", AT, headline, run, links))
    assert "secret" not in json.dumps(body)
    assert body["links"] == {"report": "http://***@mlflow:5000/#/run"}
    assert len(body["reasons"]) == len(body["worst_cases"]) == MAX_ITEMS
    assert len(body["reasons"][0]["sentence"]) == MAX_TEXT


@pytest.mark.parametrize("run", [{"reasons": "text"}, {"reasons": [1]}, {"worst_cases": None}])
def test_a_result_of_another_shape_still_gives_an_event(run: dict[str, object]) -> None:
    assert build(Event.QUALITY_BAD, Facts("chat", AT, run=run))["reasons"] == []
