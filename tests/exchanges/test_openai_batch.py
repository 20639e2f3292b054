"""Batch files of OpenAI and of vLLM's run-batch, joined by their ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from quality_lib.exchanges import openai_batch
from quality_lib.exchanges.entries import Broken, Entry, entries
from quality_lib.exchanges.openai_batch import rows_of_batch
from quality_lib.exchanges.row import Row
from tests.exchanges.logs import CHAT, LOGS, scored, shown

FOLDER = LOGS / "openai_batch"
INPUTS = (FOLDER / "night_input.jsonl").read_bytes()
OUTPUTS = (FOLDER / "night_output.jsonl").read_bytes()


def join(outputs: bytes = OUTPUTS, inputs: bytes = INPUTS) -> list[Row]:
    def again() -> Iterator[Entry | Broken]:
        return entries([inputs])

    return list(rows_of_batch(entries([outputs]), again, CHAT, "night_output.jsonl"))


def test_every_line_is_accounted_for() -> None:
    assert sorted(shown(row) for row in join()) == sorted([
        "two#0",
        "two#1",
        "one",
        "plain",
        "not_generation",
        "failure",
        "no_request",
        "duplicate",
    ])


def test_request_and_response_come_together() -> None:
    rows = {row.exchange.id: row for row in scored(join())}
    one, first, plain = rows["one"].exchange, rows["two#0"].exchange, rows["plain"].exchange
    assert one.last_asked == "What is 2 + 2?"
    assert one.params == {"max_tokens": 10, "temperature": 0}
    assert one.answer and (one.answer.text, one.answer.logprobs) == ("4", (-0.01,))
    assert one.started_at == "2026-11-29T19:41:22+00:00"
    assert first.answer and first.answer.text == "hi, hi"
    assert (plain.prompt, plain.endpoint) == ("Once", "/v1/completions")
    assert rows["one"].line == 2
    assert rows["one"].facts.stream is False


def test_a_long_batch_is_joined_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {shown(row) for row in join()}
    monkeypatch.setattr(openai_batch, "HELD", 3)
    # A duplicate that lies in another turn is seen by the sampler only.
    assert {shown(row) for row in join()} == whole - {"duplicate"}


def test_without_the_input_file_nothing_can_be_judged() -> None:
    assert {shown(row) for row in join(inputs=b"")} == {
        "no_request", "not_generation", "failure", "duplicate",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "model", "user", "shows"),
    [
        ("/v1/chat/completions", "chat", None, "x"),
        (None, "chat", None, "x"),
        ("/v1/responses", "chat", None, "not_generation"),
        ("/v1/chat/completions", "other", None, "other_service"),
        ("/v1/chat/completions", "chat", "quality-probe", "own_probe"),
    ],
)
def test_what_is_left_out(url: str | None, model: str, user: str | None, shows: str) -> None:
    asked: Any = {
        "custom_id": "x",
        "url": url,
        "body": {"model": model, "user": user, "messages": []},
    }
    body = {"choices": [{"message": {"content": "Hi"}}], "model": model}
    said = {"custom_id": "x", "response": {"status_code": 200, "body": body}}
    rows = join(json.dumps(said).encode(), json.dumps(asked).encode())
    assert [shown(row) for row in rows] == [shows]


def test_lines_of_something_else_are_bad() -> None:
    assert [shown(row) for row in join(b'{"hello": 1}\nrubbish\n{"custom_id": "x"}')] == ["bad"] * 3
