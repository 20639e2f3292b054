from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.exchanges.exchange import Answer, Exchange, ToolCall
from quality_lib.exchanges.parse import parse_exchange
from quality_lib.exchanges.record import record_of

FULL = Exchange(
    id="r-1",
    messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}),
    params={"temperature": 0.5, "max_tokens": 8, "n": 1},
    tools=({"type": "function", "function": {"name": "f"}},),
    response_format={"type": "json_object"},
    answer=Answer(
        text="{}",
        tool_calls=(ToolCall("f", '{"a": 1', "c1"),),
        reasoning="Hm.",
        finish_reason="stop",
        token_ids=(5, 6),
        logprobs=(-0.5, -1e-7),
        entropies=(0.25, 1.5),
        nan_logits=1,
    ),
    prompt_tokens=7,
    completion_tokens=2,
    expected_prompt_tokens=7,
    prompt_token_ids=(1, 2, 3),
    nonce="needle",
    recent_texts=("a", "b"),
    service="chat",
    snapshot_id="s",
    endpoint="http://x",
    started_at="2026-01-02T03:04:05.678+00:00",
)


@pytest.mark.parametrize(
    "exchange",
    [
        FULL,
        Exchange(id="a", prompt="The sea", answer=Answer(text="")),
        Exchange(id="a", prompt="The sea", answer=Answer(text=None, finish_reason="stop")),
        Exchange(id="a", prompt="The sea"),
        Exchange(id="a", prompt=""),
        Exchange(id="a", messages=()),
        Exchange(prompt_token_ids=(1, 2), answer=Answer(text="x")),
        Exchange(prompt_token_ids=(1, 2)),
        Exchange(prompt="a", prompt_token_ids=(1, 2), answer=Answer(text="x")),
    ],
)
def test_a_record_is_read_back_as_the_exchange(exchange: Exchange) -> None:
    line = json.dumps(record_of(exchange))
    assert parse_exchange(json.loads(line)) == exchange


TEXTS = st.text(max_size=12)
COUNTS = st.none() | st.integers(0, 2**31)
ANSWERS = st.builds(
    Answer,
    text=st.none() | TEXTS,
    tool_calls=st.lists(st.builds(ToolCall, TEXTS, TEXTS, TEXTS), max_size=2).map(tuple),
    reasoning=st.none() | TEXTS,
    finish_reason=st.none() | TEXTS,
    logprobs=st.none() | st.lists(st.floats(-99, 0), max_size=3).map(tuple),
)


@settings(max_examples=150)
@given(
    st.builds(
        Exchange,
        id=TEXTS,
        prompt=TEXTS,
        params=st.dictionaries(TEXTS, st.integers() | st.booleans() | TEXTS, max_size=3),
        answer=st.none() | ANSWERS,
        prompt_tokens=COUNTS,
        service=TEXTS,
        recent_texts=st.lists(TEXTS, max_size=2).map(tuple),
    )
)
def test_any_exchange_survives(exchange: Exchange) -> None:
    back = parse_exchange(json.loads(json.dumps(record_of(exchange))))
    assert back.answer == exchange.answer
    assert back.id == exchange.id
    assert back.params == exchange.params
    assert back.prompt == exchange.prompt
    assert back.recent_texts == exchange.recent_texts


def test_verdicts_and_further_fields_stand_beside_the_exchange() -> None:
    gate: dict[str, Any] = {"gate": "loop", "outcome": "FAILED"}
    record = record_of(FULL, [gate], masked=True, status=200, probe=None)
    assert record["gates"] == [gate]
    assert record["masked"] is True
    assert record["status"] == 200
    assert "probe" not in record
    assert record["usage"] == {"prompt_tokens": 7, "completion_tokens": 2}
