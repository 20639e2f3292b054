"""The contract of ``IncidentStore`` on both that we have."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.mlflow.incidents import MlflowIncidents
from quality_lib.adapters.mlflow.server import MlflowServer
from quality_lib.rollout.ports import IncidentStore
from tests.contracts.incident_store import IncidentStoreContract
from tests.fakes_incidents import InMemoryIncidents


class TestInMemory(IncidentStoreContract):
    @pytest.fixture
    def store(self) -> IncidentStore:
        return InMemoryIncidents()

    def content(self, store: IncidentStore, incident_id: str, name: str) -> bytes:
        assert isinstance(store, InMemoryIncidents)
        return store.files[incident_id][name]


@pytest.mark.stack
class TestMlflow(IncidentStoreContract):
    @pytest.fixture
    def store(self, mlflow_uri: str) -> IncidentStore:
        self.uri = mlflow_uri
        self.folder = Path()
        return MlflowIncidents(mlflow_uri)

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.downloads = tmp_path / "downloads"
        self.downloads.mkdir()

    def content(self, store: IncidentStore, incident_id: str, name: str) -> bytes:
        found = store.find(incident_id)
        assert found is not None
        # The run of the incident is a part of its page's address.
        run_id = found.url.split("/runs/")[1].split("/")[0]
        with MlflowServer(self.uri).session() as client:
            got = client.download_artifacts(run_id, name, str(self.downloads))
        return Path(got).read_bytes()
