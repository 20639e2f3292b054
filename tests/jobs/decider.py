"""A configured service whose evidence a test writes; its server is two facts and a folder."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quality_lib import wiring
from quality_lib.errors import OutsideFailure
from quality_lib.golden.result import GoldenResult, TrendPoint
from quality_lib.jobs.deployment import observe_deployment
from quality_lib.records import Summary, Tri
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.scoring.result import Depth, ScorePoint, ScoreResult
from quality_lib.settings import Settings, load
from quality_lib.snapshots.manifest import EnvironmentRecord, Manifest, WeightsRecord
from quality_lib.snapshots.startup_check import ServerFacts
from tests.adapters.pages.test_scores_report import result as score_result
from tests.builders import comparison, golden_result, golden_verdict
from tests.fakes_incidents import InMemoryIncidents
from tests.fakes_snapshots import InMemorySnapshots
from tests.snapshots.builders import manifest

CONFIG = """
services:
  {name}:
    endpoint: http://127.0.0.1:1
    model: small
    weights: model
    route: {{kind: {route}}}
    rollback: {{mode: {mode}}}
stores: {{mlflow: "{mlflow}", work_dir: runs}}
"""


class Decider:
    """The service; ``now`` is its clock."""

    def __init__(
        self, folder: Path, name: str = "chat", mlflow: str = "http://127.0.0.1:9"
    ) -> None:
        self.folder, self.name, self.mlflow = folder, name, mlflow
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.server: ServerFacts | OutsideFailure = ServerFacts(args=("--max-model-len", "2048"))
        self.signals: list[EngineFinding] | OutsideFailure = []
        self.configure()
        (folder / "model").mkdir()
        (folder / "model" / "model.safetensors").write_bytes(b"weights")

    def configure(self, mode: str = "auto", route: str = "nginx") -> None:
        text = CONFIG.format(name=self.name, route=route, mode=mode, mlflow=self.mlflow)
        (self.folder / "quality.yaml").write_text(text, encoding="utf-8")

    @property
    def config(self) -> Path:
        return self.folder / "quality.yaml"

    @property
    def settings(self) -> Settings:
        return load(self.config)

    @property
    def key(self) -> str:
        return observe_deployment(self.settings.service(self.name)).key

    def ago(self, minutes: float) -> str:
        return (self.now - timedelta(minutes=minutes)).isoformat()

    def golden(self, minutes: float, similarity: float, key: str) -> GoldenResult:
        summary = Summary.FAILED if similarity < 0.8 else Summary.HEALTHY
        return golden_result(
            service=self.name,
            run_id=f"{self.name}-golden-{minutes:g}",
            started_at=self.ago(minutes),
            deployment_key=key,
            verdict=golden_verdict(summary),
            # One metric is one request to MLflow: none that a decision does not read.
            comparison=comparison(mean_similarity=similarity, findings=()),
        )

    def score(self, minutes: float, good: int, low: int) -> ScoreResult:
        return dataclasses.replace(
            score_result(good, low),
            service=self.name,
            score_id=f"{self.name}-quick-{minutes:g}",
            start=self.ago(minutes + 10),
            end=self.ago(minutes),
        )

    def signal(self, state: Tri, name: str = "engine_health") -> EngineFinding:
        return EngineFinding(name, state, f"it says {state.value}", {}, self.now.isoformat())

    def healthy_manifest(self) -> Manifest:
        """Another folder, with other weights."""
        base = manifest().weights
        return manifest(weights=WeightsRecord(base.files, base.root_sha256, base.uri))

    def serve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in for the server, which is the only part that is not real with a real MLflow."""
        monkeypatch.setenv("QUALITY_HOME", str(self.folder / "home"))
        monkeypatch.setattr(wiring, "server_facts", lambda service: _told(self.server))
        monkeypatch.setattr(wiring, "server_environment", lambda service: EnvironmentRecord())
        monkeypatch.setattr(
            wiring, "engine_findings", lambda *_, **__: tuple(_told(self.signals)), raising=False
        )


class StoredDecider(Decider):
    """The same with its stores in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.runs: list[TrendPoint] = []
        self.windows: list[ScorePoint] = []
        self.snapshots = InMemorySnapshots()
        self.incidents = InMemoryIncidents()

    def serve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().serve(monkeypatch)
        monkeypatch.setattr(wiring, "result_store", lambda settings: _History(self.runs))
        monkeypatch.setattr(wiring, "score_store", lambda settings: _History(self.windows))
        monkeypatch.setattr(wiring, "snapshot_store", lambda settings: self.snapshots)
        monkeypatch.setattr(wiring, "incident_store", lambda settings: self.incidents)

    def add_run(self, minutes: float, similarity: float, key: str) -> None:
        done = self.golden(minutes, similarity, key)
        self.runs.insert(
            0,
            TrendPoint(
                run_id=done.run_id,
                started_at=done.started_at,
                summary=done.verdict.summary,
                changed=done.verdict.changed,
                mean_similarity=similarity,
                raw_logprob_delta=None,
                deployment_key=key,
            ),
        )

    def add_window(self, minutes: float, good: int, low: int) -> None:
        done = self.score(minutes, good, low)
        rate = done.whole.rate
        self.windows.insert(
            0,
            ScorePoint(
                score_id=done.score_id,
                start=done.start,
                end=done.end,
                depth=Depth.QUICK,
                summary=done.verdict.summary,
                changed=done.verdict.changed,
                rows=done.whole.judged,
                share=rate.share if rate else None,
                low=rate.low if rate else None,
                high=rate.high if rate else None,
                effective_rows=rate.effective_rows if rate else None,
            ),
        )


class _History:
    """Oldest first, as the real stores answer; ``kept`` is newest first."""

    def __init__(self, kept: list[Any]) -> None:
        self._kept = kept

    def history(self, service: str, *asked: Any) -> tuple[Any, ...]:
        return tuple(reversed(self._kept))


def _told(value: Any) -> Any:
    if isinstance(value, OutsideFailure):
        raise value
    return value
