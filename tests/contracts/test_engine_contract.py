from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quality_lib.adapters.engine import EngineSpec
from quality_lib.adapters.local_engine import LocalEngine
from tests.adapters.small_commands import small_server
from tests.contracts.engine import EngineContract, ManyInstances
from tests.fakes_engine import FakeEngine


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


class TestFakeEngine(ManyInstances):
    @pytest.fixture
    def engine(self) -> FakeEngine:
        return FakeEngine()

    @pytest.fixture
    def spec(self, small_model: Path) -> EngineSpec:
        return EngineSpec(small_model, "chat")


class TestLocalEngineWithASmallServer(ManyInstances):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[LocalEngine]:
        engine = LocalEngine(tmp_path / "state", command=small_server())
        yield engine
        assert engine.instances() == ()

    @pytest.fixture
    def spec(self, small_model: Path) -> EngineSpec:
        return EngineSpec(small_model, "chat", drain_s=5)


@pytest.mark.vllm
class TestLocalEngineWithVllm(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[LocalEngine]:
        engine = LocalEngine(tmp_path / "state")
        yield engine
        assert engine.instances() == ()

    @pytest.fixture
    def spec(self, model_folder: Path) -> EngineSpec:
        args = ("--max-model-len", "256", "--enforce-eager")
        return EngineSpec(model_folder, "chat", args, drain_s=10)
