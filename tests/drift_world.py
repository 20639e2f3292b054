"""A service with a stand-in model, its stores in memory, and the commands that calibrate and check it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import yaml

from quality_lib import wiring
from quality_lib.adapters.files.baseline import write_baseline
from quality_lib.adapters.files.cases import load_cases, write_cases
from quality_lib.golden.answer import SCORED_CHANNELS, Answer, Fault
from quality_lib.golden.baseline import Baseline, build_baseline
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.plan import first_attempts
from quality_lib.settings import Settings, load
from quality_lib.snapshots.manifest import EnvironmentRecord
from quality_lib.snapshots.startup_check import ServerFacts
from tests.fakes_model import FakeModel
from tests.fakes_results import InMemoryResults
from tests.fakes_snapshots import InMemorySnapshots
from tests.golden.conftest import make_cases, run_of, words_in_common

LIMITS = {"min_checks": 120, "min_blocks": 12}
"""Smaller calibrations than in production, so that tests stay quick."""


class NoisyModel(FakeModel):
    """Scores jitter by ``noise``; ``shift`` moves them for good; ``lose`` loses every request."""

    def __init__(self, noise: float = 0.02, seed: int = 0) -> None:
        super().__init__(change=self.spoil)
        self.noise, self.shift, self.lose = noise, 0.0, False
        self.offset = 0.0
        """What this server start adds to every score in health."""
        self.lost_cases: set[str] = set()
        """Of these no score comes back."""
        self.asked_scores = 0
        self.rng = random.Random(seed)
        self.before_score: Callable[[], None] = lambda: None

    def spoil(self, answer: Answer) -> Answer:
        is_scored = answer.probe.channel in SCORED_CHANNELS
        if self.lose or (is_scored and answer.probe.case_id in self.lost_cases):
            return Answer(answer.probe, fault=Fault.TRANSPORT, error="connection reset")
        if not is_scored:
            return answer
        self.asked_scores += 1
        self.before_score()
        moved = self.shift + self.offset
        if not self.noise and not moved:
            return answer
        scores = (
            None if x is None else min(0.0, x + self.rng.gauss(0, self.noise) - moved)
            for x in answer.logprobs
        )
        return dataclasses.replace(answer, logprobs=tuple(scores))

    async def __aenter__(self) -> NoisyModel:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class DriftWorld:
    """Everything around one service; ``hour`` moves the clock."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, noise: float = 0.02) -> None:
        self.folder, self.model = folder, NoisyModel(noise)
        self.snapshots, self.results = InMemorySnapshots(), InMemoryResults()
        self.start: str | None = "start-0"
        self.facts = ServerFacts(vllm_version="0.32.0", args=())
        self.environment = EnvironmentRecord(cpu="cpu of the test", torch="2.13")
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.config = folder / "quality.yaml"
        self.baseline_dir = folder / "baseline"
        (folder / "weights").mkdir()
        (folder / "weights" / "model.safetensors").write_bytes(b"weights")
        write_cases(folder / "cases.jsonl", make_cases())
        self.configure()
        patch.setenv("QUALITY_HOME", str(folder / "home"))
        patch.setattr("quality_lib.adapters.files.run_folder.os.fsync", lambda number: None)
        for name, stand_in in {
            "snapshot_store": lambda settings: self.snapshots,
            "result_store": lambda settings: self.results,
            "model_client": lambda service: self.model,
            "similarity": lambda settings: words_in_common,
            "server_facts": lambda service: self.facts,
            "server_environment": lambda service: self.environment,
            "server_start": lambda service: self.start,
        }.items():
            patch.setattr(wiring, name, stand_in)
        self.cases: Sequence[GoldenCase] = load_cases(str(folder / "cases.jsonl"))
        self.baseline = self._baseline("first")
        write_baseline(self.baseline_dir / "baseline.json", self.baseline)

    def configure(self, **drift: Any) -> None:
        entry = {
            "endpoint": "http://127.0.0.1:9",
            "model": "m",
            "weights": "weights",
            "golden": {"cases": "cases.jsonl"},
            "drift": {"sentinel_cases": 6, "loads": [1, 4], "limits": LIMITS, **drift},
        }
        data = {"services": {"chat": entry}, "stores": {"work_dir": "runs"}}
        self.config.write_text(yaml.safe_dump(data), encoding="utf-8")

    @property
    def settings(self) -> Settings:
        return load(self.config)

    def _baseline(self, name: str) -> Baseline:
        digest = golden_digest(self.cases)
        first = run_of(self.cases, self.model, name)
        answers = first_attempts(first.answers.values())
        runs = [
            first,
            *(run_of(self.cases, self.model, f"{name}-{n}", answers, name) for n in (1, 2)),
        ]
        return build_baseline(
            self.cases,
            [dataclasses.replace(run, golden_digest=digest) for run in runs],
            words_in_common,
            self.now.isoformat(),
            self.settings.embedding_model,
        )

    def hour(self) -> datetime:
        self.now += timedelta(hours=1)
        return self.now

    def run(self, name: str) -> Any:
        """Return a golden run that scores the baseline's answers."""
        made = run_of(
            self.cases, self.model, name, self.baseline.references(), self.baseline.run_ids[0]
        )
        return dataclasses.replace(
            made, golden_digest=golden_digest(self.cases), started_at=self.now.isoformat()
        )
