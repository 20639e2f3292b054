"""The records of our own server, as the guard writes them, and their short form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.exchanges.own_records import own_records
from quality_lib.exchanges.record import record_of
from quality_lib.exchanges.source import Source
from tests.exchanges.logs import read, scored, shown

KEY = "chat/dt=2026-11-29/hour=19/chat-host.7.ab12-20261129T194121Z-000001-n5.jsonl.gz"
EXCHANGE = Exchange(
    id="r-1",
    messages=({"role": "user", "content": "Hello"},),
    params={"temperature": 0.5},
    answer=Answer(text="Hi", finish_reason="stop", logprobs=(-0.5,)),
    completion_tokens=1,
    service="chat",
    endpoint="/v1/chat/completions",
    started_at="2026-11-29T19:41:21+00:00",
)


def rows(data: Any) -> list[Any]:
    return read(own_records(Source("chat")), json.dumps(data).encode(), KEY)


def record(**more: Any) -> dict[str, Any]:
    return {**record_of(EXCHANGE, request_id="r-1", status=200), **more}


def test_what_the_server_wrote_comes_back() -> None:
    (row,) = scored(rows(record(stream=True, first_byte_s=0.25)))
    assert row.exchange == EXCHANGE
    assert row.facts.stream is True
    assert row.facts.first_token_s == 0.25
    assert row.facts.backend == "host.7.ab12"


@pytest.mark.parametrize(
    ("more", "shows"),
    [
        ({}, "r-1"),
        ({"probe": None}, "r-1"),
        ({"probe": True}, "own_probe"),
        ({"status": 400, "response": None}, "failure"),
        ({"error": {"type": "x", "message": "y"}}, "failure"),
        ({"raised": "EngineDeadError"}, "failure"),
        ({"raised": None}, "r-1"),
        ({"response": None, "usage": {}, "status": None}, "no_answer"),
        ({"disconnected": True}, "r-1"),
        ({"disconnected": True, "response": {"text": "Hal"}}, "no_answer"),
        ({"dropped": {"characters": 10, "tokens": 2}}, "truncated"),
        ({"service": "other"}, "other_service"),
        ({"service": ""}, "r-1"),
        ({"request": 5}, "bad"),
        ({"usage": {"completion_tokens": "many"}}, "bad"),
    ],
)
def test_what_is_left_out(more: dict[str, Any], shows: str) -> None:
    assert [shown(row) for row in rows(record(**more))] == [shows]


def test_a_bad_line_names_the_field_and_quotes_nothing() -> None:
    (row,) = rows(record(request={"messages": [{"role": "user", "content": {"secret": "word"}}]}))
    assert "messages[0].content" in row.problem
    assert "secret" not in row.problem


def test_the_short_form_needs_no_id() -> None:
    content = b'{"prompt": "a", "text": "b"}\n{"prompt": "a", "text": "b"}'
    found = scored(read(own_records(Source("chat")), content, "k"))
    assert [row.request_id for row in found] == ["k:1", "k:2"]


def gate(**more: Any) -> dict[str, Any]:
    said = {"gate": "stream", "level": 3, "outcome": "FAILED", "reason": "stream_loop"}
    return {**said, "sentence": "It loops.", **more}


@pytest.mark.parametrize(
    ("gates", "found"),
    [
        ([gate()], [("FAILED", "stream_loop")]),
        ([gate(outcome="SUSPECT")], [("SUSPECT", "stream_loop")]),
        ([gate(level=4)], []),  # is judged again
        ([gate(outcome="UNJUDGED", reason="gate_crashed")], []),
        ([gate(level="3"), gate(outcome=["FAILED"]), gate(reason=7), "odd", None], []),
        ("odd", []),
        (None, []),
    ],
)
def test_what_level_3_found_comes_along(gates: Any, found: list[tuple[str, str]]) -> None:
    (row,) = scored(rows(record(gates=gates)))
    assert [(v.outcome.value, v.reason) for v in row.facts.stream_verdicts] == found


@pytest.mark.parametrize(
    ("masked", "parts"),
    [
        ({"fields": ["request.messages", "response.text"]}, {"request", "response"}),
        ({}, set()),
        (False, set()),
        ({"fields": "odd"}, set()),
    ],
)
def test_which_parts_were_masked_comes_along(masked: Any, parts: set[str]) -> None:
    (row,) = scored(rows(record(masked=masked)))
    assert row.facts.masked == parts
