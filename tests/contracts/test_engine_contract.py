from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance
from tests.adapters.small_commands import small_server
from tests.contracts.engine import EngineContract, ManyInstances
from tests.fakes_engine import FakeEngine

STREAMED_TOKENS = 120


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
        return EngineSpec(small_model, "chat", labels={"incident": "chat-1"})


class TestLocalEngineWithASmallServer(ManyInstances):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[LocalEngine]:
        engine = LocalEngine(tmp_path / "state", command=small_server())
        yield engine
        assert engine.instances() == ()

    @pytest.fixture
    def spec(self, small_model: Path) -> EngineSpec:
        return EngineSpec(small_model, "chat", drain_s=5, labels={"incident": "chat-1"})


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
        return EngineSpec(model_folder, "chat", args, drain_s=120)

    def use(self, instance: Instance) -> Callable[[], None]:
        """Begin a stream, which the server must finish although it is told to stop."""
        lines: list[str] = []
        has_begun = threading.Event()
        reader = threading.Thread(target=_read, args=(instance.endpoint, lines, has_begun))
        reader.start()
        assert has_begun.wait(200)

        def look_again() -> None:
            reader.join(200)
            assert lines[-1] == "data: [DONE]"
            usage = json.loads(lines[-2].removeprefix("data: "))["usage"]
            assert usage["completion_tokens"] == STREAMED_TOKENS

        return look_again


def _read(endpoint: str, lines: list[str], has_begun: threading.Event) -> None:
    request = {
        "model": "chat",
        "prompt": "Once upon a time",
        "max_tokens": STREAMED_TOKENS,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    url = f"{endpoint}/v1/completions"
    with httpx.stream("POST", url, json=request, timeout=200) as answer:
        for line in filter(None, answer.iter_lines()):
            lines.append(line)
            has_begun.set()
