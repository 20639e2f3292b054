"""The contract of the store of results on both that we have."""

from __future__ import annotations

import pytest

from quality_lib.adapters.mlflow.results import MlflowResults
from tests.contracts.result_store import ResultStore, ResultStoreContract
from tests.fakes_results import InMemoryResults


class TestInMemory(ResultStoreContract):
    @pytest.fixture
    def store(self) -> ResultStore:
        return InMemoryResults()


@pytest.mark.stack
class TestMlflow(ResultStoreContract):
    @pytest.fixture
    def store(self, mlflow_uri: str) -> ResultStore:
        return MlflowResults(mlflow_uri)
