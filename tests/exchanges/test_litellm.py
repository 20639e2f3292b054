"""LiteLLM's payloads, on what a real proxy wrote and on what its settings make of them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from quality_lib.exchanges.litellm import address, litellm
from quality_lib.exchanges.row import Dropped, DropReason
from quality_lib.exchanges.source import Source
from tests.exchanges.logs import CHAT, LOGS, read, scored, shown

FOLDER = LOGS / "litellm" / "2026-11-29"
STREAMED, TOOLS, TWO_CHOICES, FAILED = (
    next(FOLDER.glob(f"time-19-41-{second}-*.json")) for second in (31, 33, 36, 40)
)
BATCH = next(FOLDER.glob("batch_*.jsonl"))


def payload(**changes: Any) -> bytes:
    """Return the streamed payload with some of its fields changed; dots go into objects."""
    data = json.loads(STREAMED.read_text(encoding="utf-8"))
    for path, value in changes.items():
        *folders, name = path.split("__")
        at = data
        for folder in folders:
            at = at[folder]
        if value is ...:
            at.pop(name, None)
        else:
            at[name] = copy.deepcopy(value)
    return json.dumps(data).encode()


def test_a_batch_file_gives_its_requests() -> None:
    rows = scored(read(litellm(CHAT), BATCH.read_bytes()))
    assert len(rows) == 4
    first = rows[0].exchange
    assert first.id == "chatcmpl-9a6e0ea189639442"
    assert first.started_at == "2026-11-29T19:41:41.399741+00:00"
    assert first.service == "chat"
    assert first.params == {"temperature": 0, "max_tokens": 60, "seed": 0}
    assert first.asked == "You are a helpful assistant.\nWhat is the capital of France?"
    assert first.answer and first.answer.text == "The capital of France is Paris."
    assert (first.prompt_tokens, first.completion_tokens) == (27, 8)
    assert "web" in rows[0].facts.tags


def test_facts_of_a_stream() -> None:
    (row,) = scored(read(litellm(CHAT), STREAMED.read_bytes()))
    assert row.facts.stream is True
    assert (row.facts.model, row.facts.backend) == ("chat", "http://127.0.0.1:8101")
    assert row.facts.first_token_s == pytest.approx(0.15, abs=0.01)


def test_without_streaming_the_first_token_is_not_timed() -> None:
    (row,) = scored(read(litellm(CHAT), TOOLS.read_bytes()))
    assert (row.facts.stream, row.facts.first_token_s) == (False, None)


def test_tool_arguments_that_do_not_fit_stay_as_they_are() -> None:
    (row,) = scored(read(litellm(CHAT), TOOLS.read_bytes()))
    assert row.exchange.tools[0]["function"]["name"] == "get_weather"
    assert row.exchange.answer is not None
    (call,) = row.exchange.answer.tool_calls
    assert (call.name, call.arguments) == ("get_weather", '"e_arminen ynirimai"')


def test_two_choices_share_their_request() -> None:
    rows = scored(read(litellm(CHAT), TWO_CHOICES.read_bytes()))
    assert [r.exchange.id for r in rows] == [f"{rows[0].request_id}#0", f"{rows[0].request_id}#1"]
    for row in rows:
        assert row.exchange.answer and row.exchange.answer.logprobs
        assert len(row.exchange.answer.logprobs) == row.exchange.completion_tokens == 20


def test_a_real_failure_is_counted() -> None:
    (row,) = read(litellm(CHAT), FAILED.read_bytes())
    assert isinstance(row, Dropped)
    assert row.reason is DropReason.FAILURE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cache_hit": True}, "cache_hit"),
        ({"cache_hit": "True"}, "cache_hit"),
        ({"metadata__is_silent_experiment": True}, "silent_experiment"),
        ({"call_type": "aembedding"}, "not_generation"),
        ({"call_type": "atranscription"}, "not_generation"),
        ({"status": "failure"}, "failure"),
        ({"model_group": "summariser", "model": "hosted_vllm/other"}, "other_service"),
        ({"request_tags": ["quality-probe"]}, "own_probe"),
        ({"end_user": "quality-probe"}, "own_probe"),
        ({"metadata__requester_custom_headers": {"X-Quality-Probe": "1"}}, "own_probe"),
        ({"metadata__requester_metadata": {"headers": {"x-quality-probe": "1"}}}, "own_probe"),
        ({"response": ...}, "redacted"),
        ({"response": {}}, "redacted"),
        ({"response": {"text": "redacted-by-litellm"}}, "redacted"),
        ({"response__choices": [{"message": {"content": "redacted-by-litellm"}}]}, "redacted"),
        (
            {
                "response__choices": [
                    {"message": {"content": "start ... (litellm_truncated 9000 chars)"}}
                ]
            },
            "truncated",
        ),
    ],
)
def test_what_is_left_out(changes: dict[str, Any], reason: str) -> None:
    assert [shown(row) for row in read(litellm(CHAT), payload(**changes))] == [reason]


@pytest.mark.parametrize(
    "changes",
    [
        {"cache_hit": None},
        {"cache_hit": "False"},
        {"metadata__is_silent_experiment": False},
        {"call_type": "completion"},
        {"model_group": "chat", "model": "hosted_vllm/anything"},
        {"model_group": None, "model": "hosted_vllm/chat"},
        {"metadata__requester_custom_headers": {"x-quality-probe": "0", "x-quality": "1"}},
        {"request_tags": ["no quality-probe"]},
        {"response__choices": [{"message": {"content": None}}]},
        {"response__choices": [{"message": {"content": "The word redacted means removed."}}]},
        {"error_str": None, "metadata": None},
        {
            "response__choices": [
                {"message": {"content": "It ends with [truncated] when it is long."}}
            ]
        },
    ],
)
def test_what_looks_like_it_and_stays(changes: dict[str, Any]) -> None:
    assert len(scored(read(litellm(CHAT), payload(**changes)))) == 1


def test_an_answer_outlives_its_redacted_prompt() -> None:
    rows = read(
        litellm(CHAT), payload(messages=[{"role": "user", "content": "redacted-by-litellm"}])
    )
    assert scored(rows)[0].exchange.messages is None


def test_a_completion_keeps_its_prompt() -> None:
    content = payload(
        call_type="atext_completion", messages="Once", response__choices=[{"text": " upon a time"}]
    )
    (row,) = scored(read(litellm(CHAT), content))
    assert (row.exchange.prompt, row.exchange.endpoint) == ("Once", "/v1/completions")


def test_without_models_the_log_is_the_services_own() -> None:
    assert len(scored(read(litellm(Source("x")), payload(model_group="whatever")))) == 1


def test_json_of_something_else_is_a_bad_line() -> None:
    assert [shown(row) for row in read(litellm(CHAT), b'{"level": "INFO", "msg": "hi"}')] == ["bad"]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("http://u:secret@h:8000/v1?key=secret", "http://h:8000"),
        ("https://[::1]:8000/v1", "https://[::1]:8000"),
        ("http://[oops", ""),
        (None, ""),
        ("no address", ""),
    ],
)
def test_an_address_keeps_no_secret(written: Any, kept: str) -> None:
    assert address(written) == kept
