"""``quality decide`` on stores in memory: exit codes, the JSON contract, the truth table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quality_lib.cli import app
from quality_lib.commands.output import stdout
from quality_lib.records import Tri
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.snapshots.ports import Health
from tests.jobs.decider import StoredDecider

CONTRACT = {
    "service",
    "action",
    "incident_id",
    "mode",
    "policy",
    "policy_state",
    "conditions",
    "reasons",
    "headline",
    "dry_run",
}


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredDecider:
    service = StoredDecider(tmp_path)
    service.serve(monkeypatch)
    monkeypatch.setattr(stdout, "width", 200)
    return service


def run(chat: StoredDecider, *args: str) -> Result:
    given = ["decide", "--service", "chat", "--config", str(chat.config), *args]
    return CliRunner().invoke(app, given)


def as_json(chat: StoredDecider, exit_code: int, *args: str) -> Any:
    done = run(chat, "--json", *args)
    assert done.exit_code == exit_code, (done.output, done.exception)
    return json.loads(done.stdout)


def give(chat: StoredDecider, similarity: float, low: int, engine: Tri) -> None:
    for minutes in (65, 5):
        chat.add_run(minutes, similarity, chat.key)
    chat.add_window(2, 400 - low, low)
    chat.signals = [chat.signal(engine)]


@pytest.mark.parametrize(
    ("similarity", "low", "engine", "is_registered", "action", "exit_code"),
    [
        (0.98, 0, Tri.NO, True, "none", 0),
        (0.30, 0, Tri.NO, True, "none", 0),
        (0.30, 80, Tri.NO, True, "rollback", 1),
        (0.98, 0, Tri.YES, True, "rollback", 1),
        (0.30, 80, Tri.NO, False, "alert", 1),
        (0.98, 0, Tri.UNKNOWN, True, "wait", 4),
        (0.30, 25, Tri.NO, True, "alert", 1),
    ],
)
def test_exit_codes(
    chat: StoredDecider,
    similarity: float,
    low: int,
    engine: Tri,
    is_registered: bool,
    action: str,
    exit_code: int,
) -> None:
    give(chat, similarity, low, engine)
    if is_registered:
        chat.snapshots.create("chat", chat.healthy_manifest(), {}, Health.HEALTHY)
    found = as_json(chat, exit_code)
    assert found["action"] == action
    assert set(found) >= CONTRACT
    assert all(isinstance(reason, str) for reason in found["reasons"])
    assert [condition["name"] for condition in found["conditions"]] == ["A", "B", "C"]
    assert bool(chat.incidents.history("chat")) == (action == "rollback")


def test_a_dry_run_says_so_and_records_nothing(chat: StoredDecider) -> None:
    give(chat, 0.3, 80, Tri.NO)
    chat.snapshots.create("chat", chat.healthy_manifest(), {}, Health.HEALTHY)
    found = as_json(chat, 1, "--dry-run")
    assert (found["action"], found["dry_run"]) == ("rollback", True)
    assert chat.incidents.history("chat") == ()
    assert "would be opened" in run(chat, "--dry-run", "--explain").stdout


def test_the_truth_table_names_every_input_and_why_it_did_not_count(chat: StoredDecider) -> None:
    key = chat.key
    chat.add_run(125, 0.31, "before")
    chat.add_run(65, 0.32, key)
    chat.add_run(5, 0.33, key)
    chat.add_window(45, 200, 200)
    chat.add_window(2, 380, 20)
    shown = " ".join(run(chat, "--explain").stdout.split())
    for words in (
        "A yes the last 2 golden runs in a row were below 0.8 or failed",
        "similarity 0.330, failed below 0.8 or failed 5 min yes yes",
        "is of another deployment (before)",
        "B no 5.0% of 400 answers were low quality, limit 5.0%",
        "is 45 min old, allowed are 30 min",
        "C unknown no engine signal was read",
        "(A and B) or C = (yes and no) or unknown = unknown",
        "open incident: none",
        "rollbacks within 24 h: 0 of 3",
        "A holds and C is not known: a person should look (partly_known)",
        "then a person is told; no rollback starts",
    ):
        assert words in shown, shown


def test_foreign_text_is_no_markup(chat: StoredDecider) -> None:
    odd = EngineFinding("log", Tri.YES, "[red]CUDA[/] error [/]", {}, chat.now.isoformat())
    chat.signals = [odd]
    done = run(chat, "--explain")
    assert done.exit_code == 1, done.exception
    assert "[red]CUDA[/] error [/]" in done.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [(["decide"], "--service"), (["decide", "--service", "caht"], "there is no service 'caht'")],
)
def test_wrong_use_ends_with_2(chat: StoredDecider, args: list[str], told: str) -> None:
    done = CliRunner().invoke(app, [*args, "--config", str(chat.config)])
    assert told in done.output + str(done.exception)
    assert getattr(done.exception, "exit_code", done.exit_code) == 2
