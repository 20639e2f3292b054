"""A store of golden results in memory; ``contracts/result_store.py`` keeps it honest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quality_lib.adapters.mlflow.runs import PublishedRun
from quality_lib.golden.drift_record import DriftRecord
from quality_lib.golden.result import GoldenResult, TrendPoint


class InMemoryResults:
    def __init__(self) -> None:
        self.results: list[GoldenResult] = []
        self.files: dict[str, frozenset[str]] = {}
        """Names of what was stored with each run."""

    def publish(self, result: GoldenResult, files: Mapping[str, Path]) -> PublishedRun:
        if result.run_id not in {known.run_id for known in self.results}:
            self.results.append(result)
            self.files[result.run_id] = frozenset(files)
        return PublishedRun(result.run_id, result.run_id, "", "")

    def history(self, service: str, limit: int = 168) -> tuple[TrendPoint, ...]:
        return ()

    def last_drift(self, service: str, key: str) -> tuple[DriftRecord | None, str]:
        for result in reversed(self.results):
            if result.service != service or result.drift is None:
                continue
            if result.drift.key != key:
                return None, f"none: check {result.run_id} stood on another calibration"
            return result.drift, f"check {result.run_id}"
        return None, "none: this is the first published check of this calibration"
