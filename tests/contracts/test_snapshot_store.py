"""The contract of ``SnapshotStore`` on both that we have."""

from __future__ import annotations

import pytest

from quality_lib.adapters.mlflow.snapshots import MlflowSnapshots
from quality_lib.snapshots.ports import SnapshotStore
from tests.contracts.snapshot_store import SnapshotStoreContract
from tests.fakes_snapshots import InMemorySnapshots


class TestInMemory(SnapshotStoreContract):
    @pytest.fixture
    def store(self) -> SnapshotStore:
        return InMemorySnapshots()


@pytest.mark.stack
class TestMlflow(SnapshotStoreContract):
    @pytest.fixture
    def store(self, mlflow_uri: str) -> SnapshotStore:
        return MlflowSnapshots(mlflow_uri)
