"""An Airflow of its own on SQLite, a stand-in for the library's commands, and a real alert receiver."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="quality-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# Airflow reads its settings when it is first imported, so they stand here and not in a fixture.
os.environ.update({
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
})

OF_AIRFLOW = (
    # pathspec, as Airflow 3.3.2 uses it to read .airflowignore
    "ignore:GitWildMatchPattern:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let Airflow's own deprecation warnings pass, here and nowhere else."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for warning in OF_AIRFLOW:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def airflow() -> None:
    """Make the database once."""
    from airflow.utils.db import initdb

    initdb()


@dataclass
class Receiver:
    """A real HTTP server that keeps the events it was sent."""

    events: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    status: int = 200
    port: int = 0

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["name"] == name]


@contextmanager
def listening(kept: Receiver) -> Generator[Receiver]:
    """Run a real server that keeps what is posted to it and answers with ``kept.status``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            kept.headers.append(dict(self.headers))
            kept.paths.append(self.path)
            self.send_response(kept.status)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    kept.port = server.server_address[1]
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver]:
    with listening(Receiver()) as kept:
        monkeypatch.setenv(
            "AIRFLOW_CONN_QUALITY_ALERTS",
            json.dumps({
                "conn_type": "http",
                "host": f"http://127.0.0.1:{kept.port}/hooks/very-secret-path",
                "login": "pager",
                "password": "very-secret-password",
            }),
        )
        yield kept


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver]:
    """Slack's incoming webhook at another base address; ``events`` are its messages."""
    with listening(Receiver()) as kept:
        monkeypatch.setenv(
            "AIRFLOW_CONN_QUALITY_SLACK",
            json.dumps({
                "conn_type": "slackwebhook",
                "host": f"http://127.0.0.1:{kept.port}/services",
                "password": "T000/B000/very-secret-token",
            }),
        )
        yield kept


@dataclass
class Library:
    """The stand-in's script and what was asked of it."""

    home: Path
    config: Path

    def answer(self, answers: Mapping[str, list[dict[str, Any]]]) -> None:
        known = json.loads((self.home / "answers.json").read_text())
        (self.home / "answers.json").write_text(json.dumps({**known, **answers}))
        (self.home / "calls.jsonl").write_text("")

    def calls(self, verb: str = "", service: str = "") -> list[dict[str, Any]]:
        lines = map(json.loads, (self.home / "calls.jsonl").read_text().splitlines())
        return [c for c in lines if c["verb"].startswith(verb) and service in {"", c["service"]}]

    def configure(self, *services: str, alerts: bool = True, slack: bool = False) -> None:
        lines = ["services:"]
        for name in services:
            lines += [f"  {name}: {{endpoint: 'http://127.0.0.1:9', model: m, weights: w}}"]
        lines += ["stores: {work_dir: runs}"]
        lines += (
            ["alerts: {http_conn_id: quality_alerts, slack_conn_id: quality_slack}"]
            if slack
            else (["alerts: {http_conn_id: quality_alerts}"] if alerts else [])
        )
        self.config.write_text("\n".join(lines) + "\n")


@pytest.fixture
def nothing_told(airflow: None) -> None:
    """Forget what earlier tests have told, or an alert would be a mere repetition."""
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(AssetStateStoreModel))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Two services, ``chat`` and ``code``, and a library in which everything is fine."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent}/stand_in.py "$@"\n'
    )
    python.chmod(0o755)
    kept = Library(tmp_path, tmp_path / "quality.yaml")
    kept.configure("chat", "code")
    monkeypatch.setenv("QUALITY_PYTHON", str(python))
    monkeypatch.setenv("QUALITY_CONFIG", str(kept.config))
    monkeypatch.setenv("STAND_IN", str(tmp_path))
    (tmp_path / "answers.json").write_text("{}")
    kept.answer({
        "golden check": [checked("good")],
        "golden publish": [{"json": {"run_url": "http://m/run", "report_url": "http://m/report"}}],
        "golden baseline": [{"json": {"baseline": "/b"}}],
        "snapshot eligible": [{"json": {"eligible": True, "reason": "healthy for 25 h"}}],
        "snapshot create": [{"json": {"snapshot_id": "a" * 64, "url": "http://m/snapshot"}}],
        "logs partitions chat": [planned("chat", "1/2", "2/2")],
        "logs partitions code": [planned("code", "1/1")],
        "logs score": [{"json": {"judged": 200, "low": 0}}],
        "logs merge": [merged("good")],
        "logs publish": [{"json": {"run_url": "http://m/run", "report_url": "http://m/report"}}],
        "decide": [decided("none")],
        "rollback plan": [plan_of("chat")],
        **{f"rollback step {name}": [stepped(name)] for name in STEPS},
        "rollback abort": [stepped("abort", headline="the starting weights are back")],
        "rollback reconcile": [{"json": {"reconciled": []}}],
        "rollback status": [{"json": {"service": "chat", "incident_id": None}}],
        "prune": [{"json": {"removed": [], "headline": "nothing to remove"}}],
    })
    return kept


def checked(verdict: str, headline: str = "", **more: Any) -> dict[str, Any]:
    """Return an answer of ``golden check`` as the library gives it."""
    summary, changed, code = {
        "good": ("healthy", "no", 0),
        "degraded": ("degraded", "no", 1),
        "failed": ("failed", "yes", 1),
        "changed": ("healthy", "yes", 1),
        "inconclusive": ("inconclusive", "unknown", 4),
    }[verdict]
    result = {
        "run_id": "r1",
        "run_dir": "/runs/chat/r1",
        "snapshot_id": "abc",
        "summary": summary,
        "changed": changed,
        "headline": headline or f"it is {verdict}",
        "reasons": [{"code": "similarity_low", "sentence": "mean similarity 0.41, healthy 0.97"}],
        "worst_cases": ["fact-01", "json-07"],
    }
    return {"code": code, "json": {**result, **more}}


STEPS = (
    "validate", "start", "check", "move", "retire", "recover", "report", "abort", "stop-staging",
)  # fmt: skip


def decided(action: str, headline: str = "", **more: Any) -> dict[str, Any]:
    """Return an answer of ``decide`` as the library gives it."""
    code = {"none": 0, "wait": 4, "alert": 1, "rollback": 1}[action]
    condition = {"name": "A", "state": "yes", "sentence": "2 bad golden runs", "inputs": []}
    result = {
        "service": "chat",
        "action": action,
        "incident_id": "chat-abc-0",
        "mode": "auto",
        "policy": "(A and B) or C",
        "policy_state": "yes",
        "conditions": [condition],
        "reasons": [{"code": "cool_down", "sentence": "cooling down"}],
        "headline": headline or f"chat: {action}",
        "dry_run": False,
    }
    return {"code": code, "json": {**result, **more}}


def plan_of(service: str, mode: str = "auto", **more: Any) -> dict[str, Any]:
    """Return an answer of ``rollback plan`` as the library gives it: two moves."""
    moves = [
        {"index": 0, "name": "50 %", "weights": {"old": 50, "new": 50}},
        {"index": 1, "name": "100 %", "weights": {"old": 0, "new": 100}},
    ]
    plan = {
        "strategy": "surge",
        "starting": {"service": service, "backends": [{"name": "old", "weight": 100}]},
        "candidates": [{"snapshot_id": "b" * 64, "number": 3}],
        "steps": [{"name": "validate", "what": "re-hash | golden set", "expected_s": 90.0}],
        "moves": moves,
        "capacity": "1 instance serves now",
        "outage_s": 0.0,
    }
    result = {
        "incident_id": f"{service}-abc-0",
        "incident_dir": f"/incidents/{service}/{service}-abc-0",
        "service": service,
        "target": "b" * 64,
        "mode": mode,
        "plan": plan,
        "moves": [{"index": m["index"], "name": m["name"]} for m in moves],
        "headline": f"roll '{service}' back to snapshot {'b' * 12}",
        "dry_run": False,
    }
    return {"code": 0, "json": {**result, **more}}


def stepped(step: str, code: int = 0, headline: str = "", **more: Any) -> dict[str, Any]:
    """Return an answer of ``rollback step`` as the library gives it."""
    result = {
        "incident_id": "chat-abc-0",
        "service": "chat",
        "step": step,
        "index": None,
        "done": code == 0,
        "state": "done" if code == 0 else "bad",
        "next": None,
        "url": "",
        "headline": headline or f"{step} is done",
        "journal_revision": 7,
    }
    return {"code": code, "json": {**result, **more}}


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie that nobody has asked for yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def planned(service: str, *partitions: str) -> dict[str, Any]:
    """Return an answer of ``logs partitions``: a window that is due, or none without partitions."""
    if not partitions:
        return {"json": {"due": False, "service": service, "partitions": []}}
    window = {"start": "2026-03-01T00:00:00+00:00", "end": "2026-03-01T00:10:00+00:00"}
    return {
        "json": {
            "due": True,
            "partitions": list(partitions),
            "run_dir": f"/runs/{service}/w",
            **window,
        }
    }


def merged(verdict: str, headline: str = "", **more: Any) -> dict[str, Any]:
    """Return an answer of ``logs merge`` as the library gives it."""
    summary, changed, code = {
        "good": ("healthy", "unknown", 0),
        "degraded": ("degraded", "unknown", 1),
        "failed": ("failed", "unknown", 1),
        "changed": ("healthy", "yes", 1),
        "inconclusive": ("inconclusive", "unknown", 4),
    }[verdict]
    result = {
        "score_id": "chat-quick-w",
        "run_dir": "/runs/chat/w",
        "summary": summary,
        "changed": changed,
        "headline": headline or f"it is {verdict}",
        "reasons": [{"code": "low_quality", "sentence": "12.0% of the answers are of low quality"}],
        "judged": 400,
        "low": 48,
        "low_quality_rate": 0.12,
        "worst_cases": ["req-1"],
        "waits": False,
        "watermark": None
        if verdict == "inconclusive"
        else {"complete_to": "2026-03-01T00:10:00+00:00", "seen": ["ab"], "seen_rate": 1.0},
    }
    return {"code": code, "json": {**result, **more}}
