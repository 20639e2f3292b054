"""What a vLLM can do is seen by looking; repetition detection is asked for where it is wanted."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.serving.engine_features import (
    EngineFeatures,
    engine_features,
    is_engine_stop,
    with_repetition_detection,
)

CAN = EngineFeatures(repetition_detection=True)
STOP = StreamLimits(reaction="stop")
ASKED = {"max_pattern_size": 32, "min_pattern_size": 1, "min_count": 128}


@pytest.mark.parametrize(
    ("params", "limits", "features", "expected"),
    [
        ({"n": 2}, STOP, CAN, {"n": 2, "repetition_detection": ASKED}),
        ({}, StreamLimits(reaction="correct"), CAN, {"repetition_detection": ASKED}),
        ({}, StreamLimits(), CAN, {}),
        ({}, STOP, EngineFeatures(), {}),
        ({"repetition_detection": None}, STOP, CAN, {"repetition_detection": None}),
        ({"repetition_detection": {"min_count": 3}}, STOP, CAN, {"repetition_detection": {"min_count": 3}}),
    ],
)  # fmt: skip
def test_repetition_detection(
    params: dict[str, Any], limits: StreamLimits, features: EngineFeatures, expected: dict[str, Any]
) -> None:
    before = dict(params)
    assert with_repetition_detection(params, limits, features) == expected
    assert params == before


@pytest.mark.parametrize(
    ("finish", "stop", "expected"),
    [
        ("repetition", None, True),
        ("stop", "repetition_detected", True),
        ("stop", None, False),
        ("stop", 2, False),
        (None, None, False),
    ],
)
def test_the_engines_stop_is_known(finish: str | None, stop: Any, expected: bool) -> None:
    assert is_engine_stop(finish, stop) is expected


CHAT = "vllm.entrypoints.openai.chat_completion.protocol"
COMPLETION = "vllm.entrypoints.openai.completion.protocol"
OLD = "vllm.entrypoints.openai.protocol"


def fake(monkeypatch: pytest.MonkeyPatch, **modules: dict[str, Any] | None) -> None:
    """Put stand-ins of vLLM's modules in place; a module that is not named does not load."""
    names = {"chat": CHAT, "completion": COMPLETION, "old": OLD}
    for short, name in names.items():
        given = modules.get(short)
        module = None
        if given is not None:
            module = ModuleType(name)
            vars(module).update(given)
        monkeypatch.setitem(sys.modules, name, module)


def request(*fields: str) -> Any:
    return type("Request", (), {"model_fields": dict.fromkeys(fields)})


def test_a_new_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = ("repetition_detection", "return_token_ids", "vllm_xargs")
    fake(
        monkeypatch,
        chat={"ChatCompletionRequest": request(*fields)},
        completion={"CompletionRequest": request(*fields)},
    )
    assert engine_features() == CAN


def test_an_engine_of_which_only_one_kind_of_request_can(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(
        monkeypatch,
        chat={"ChatCompletionRequest": request("return_token_ids", "repetition_detection")},
        completion={"CompletionRequest": request("return_token_ids")},
    )
    assert engine_features() == EngineFeatures()


def test_an_engine_with_its_requests_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {
        "ChatCompletionRequest": request("repetition_detection"),
        "CompletionRequest": request("repetition_detection"),
    }
    fake(monkeypatch, old=both)
    assert engine_features() == CAN


def test_no_engine_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    assert engine_features() == EngineFeatures()
