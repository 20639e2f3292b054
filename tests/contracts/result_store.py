"""What every store of golden results must do with decisions; run on the fake and on MLflow."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from quality_lib.adapters.files.result import RESULT, write_result
from quality_lib.golden.drift_record import DriftRecord
from quality_lib.golden.result import GoldenResult
from tests.builders import drift_record, golden_result


class ResultStore(Protocol):
    def publish(self, result: GoldenResult, files: Mapping[str, Path]) -> Any: ...

    def last_drift(self, service: str, key: str) -> tuple[DriftRecord | None, str]: ...


class ResultStoreContract:
    """Subclasses give the fixture ``store``."""

    @pytest.fixture
    def service(self) -> str:
        return f"chat-{uuid.uuid4().hex[:8]}"

    def publish(
        self, store: ResultStore, folder: Path, service: str, number: int, key: str | None
    ) -> None:
        drift = drift_record(key=key, state_from=f"number {number}") if key else None
        result = dataclasses.replace(
            golden_result(), service=service, run_id=f"{service}-{number}", drift=drift
        )
        own = folder / str(number)
        own.mkdir(exist_ok=True)
        write_result(own, result)
        store.publish(result, {RESULT: own / RESULT})

    def test_without_a_check_there_is_no_decision(self, store: ResultStore, service: str) -> None:
        found, told = store.last_drift(service, "k1")
        assert found is None
        assert "first published check" in told

    def test_the_latest_decision_of_the_calibration_comes_back_whole(
        self, store: ResultStore, service: str, tmp_path: Path
    ) -> None:
        for number, key in enumerate(("k1", "k1", None)):
            self.publish(store, tmp_path, service, number, key)
        found, told = store.last_drift(service, "k1")
        assert found == drift_record(key="k1", state_from="number 1")
        assert told == f"check {service}-1"

    def test_a_decision_on_another_calibration_ends_what_was_known(
        self, store: ResultStore, service: str, tmp_path: Path
    ) -> None:
        for number, key in enumerate(("k1", "k2")):
            self.publish(store, tmp_path, service, number, key)
        found, told = store.last_drift(service, "k1")
        assert found is None
        assert "another calibration" in told

    def test_services_do_not_see_each_other(
        self, store: ResultStore, service: str, tmp_path: Path
    ) -> None:
        self.publish(store, tmp_path, service, 0, "k1")
        assert store.last_drift(f"{service}-other", "k1")[0] is None
