"""Arbitrary bytes and JSON in every reader: rows come out, never an exception."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.exchanges.entries import Entry, entries
from quality_lib.exchanges.field_map import FIELDS, compile_fields, mapped_records
from quality_lib.exchanges.json_path import compile_path, look_up
from quality_lib.exchanges.langfuse import langfuse
from quality_lib.exchanges.litellm import litellm
from quality_lib.exchanges.openai_batch import rows_of_batch
from quality_lib.exchanges.own_records import own_records
from quality_lib.exchanges.reading import rows_of
from quality_lib.exchanges.row import BadLine, Dropped, Row, Scored
from quality_lib.exchanges.sampling import Sampler
from quality_lib.exchanges.source import Reader, Source
from tests.exchanges.logs import LOGS

SOURCE = Source("chat", frozenset({"chat"}))
READERS: dict[str, Reader] = {
    "own": own_records(SOURCE),
    "litellm": litellm(SOURCE),
    "langfuse": langfuse(SOURCE),
    "fields": mapped_records(compile_fields({f: [f, f"nested.{f}[0]"] for f in FIELDS}), SOURCE),
}
NAMES = sorted(
    FIELDS
    | {
        "choices", "content", "usage", "usage_details", "input", "output", "type", "level", "metadata",
        "model_parameters", "call_type", "startTime", "model_group", "custom_id", "body", "url",
        "status_code", "function", "arguments", "parts", "role", "provider_specific_fields", "index",
        "request_tags", "requester_custom_headers", "completionStartTime", "tool_definitions", "nested",
        "response_format", "completion_tokens", "finish_reason", "api_base", "error_str", "service",
    }
)  # fmt: skip
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**300, max_value=10**310)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([
        "chat",
        "GENERATION",
        "success",
        "\ud83d",
        "[1]",
        '{"role": 1}',
        "2026-11-29",
        "token_id:9",
    ])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=25,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=10)
LIKELY = [
    json.loads(line)
    for file in sorted(LOGS.rglob("*.json*"))
    for line in file.read_text(encoding="utf-8").splitlines()
    if len(line) < 20_000
]


def check(rows: list[Row]) -> None:
    """A crash inside a reader is caught and told; here it is a failure all the same."""
    sampler = Sampler("s", 5, 1)
    for row in rows:
        assert isinstance(row, Scored | Dropped | BadLine)
        if isinstance(row, BadLine):
            assert not row.problem.startswith("cannot be read:"), row.problem
        sampler.add(row)
    assert sampler.result().counts.entries == len(rows)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60)
@given(data=OBJECTS)
def test_arbitrary_objects(name: str, data: dict[str, Any]) -> None:
    check(list(rows_of([json.dumps(data).encode()], "k", READERS[name])))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60)
@given(draw=st.data())
def test_real_entries_with_something_else_inside(name: str, draw: st.DataObject) -> None:
    data = json.loads(json.dumps(draw.draw(st.sampled_from(LIKELY))))
    for _ in range(draw.draw(st.integers(1, 4))):
        at: Any = data
        while isinstance(at, dict | list) and at:
            steps = sorted(at) if isinstance(at, dict) else list(range(len(at)))
            step = draw.draw(st.sampled_from(steps))
            if not isinstance(at[step], dict | list) or draw.draw(st.booleans()):
                at[step] = draw.draw(VALUES)
                break
            at = at[step]
    check(list(rows_of([json.dumps(data).encode()], "k", READERS[name])))


def swollen(data: Any, number: float) -> Any:
    """The same entry with another number wherever it has one."""
    if isinstance(data, dict):
        return {key: swollen(value, number) for key, value in data.items()}
    if isinstance(data, list):
        return [swollen(value, number) for value in data]
    return number if isinstance(data, int | float) and not isinstance(data, bool) else data


@pytest.mark.parametrize("number", [10**311, -(10**311), 1e308, float("inf"), float("nan")])
@pytest.mark.parametrize("name", READERS)
def test_numbers_that_no_float_holds(name: str, number: float) -> None:
    """JSON knows no largest number."""
    entry = {"usage": {"completion_tokens": 1, "prompt_tokens": 1}, "completion_tokens": 1, "params": {"seed": 1}}  # fmt: skip
    for data in [*LIKELY, entry]:
        written = json.dumps(swollen(data, number)).encode()
        check(list(rows_of([written], "k", READERS[name])))


@settings(max_examples=60)
@given(
    outputs=st.lists(OBJECTS, max_size=4),
    inputs=st.lists(OBJECTS, max_size=4),
    noise=st.binary(max_size=30),
)
def test_arbitrary_batches(outputs: list[Any], inputs: list[Any], noise: bytes) -> None:
    def lines(items: list[Any]) -> bytes:
        for number, item in enumerate(items):
            item["custom_id"] = f"c{number}"
        return b"\n".join(json.dumps(item).encode() for item in items) + b"\n" + noise

    said = [{"response": {"status_code": 200, "body": item}} for item in outputs]

    def again() -> Any:
        return entries([lines(inputs)])

    check(list(rows_of_batch(entries([lines(said)]), again, SOURCE, "k")))


@settings(max_examples=150)
@given(
    pieces=st.lists(st.binary(max_size=40) | st.sampled_from([b'{"a":1}', b"\n", b"[", b"]", b'{"', b'"', b"\x1f\x8b", b"\\", b"{" * 50]), max_size=12),
    block=st.integers(1, 64),
    packed=st.booleans(),
    cut=st.integers(0, 20),
)  # fmt: skip
def test_arbitrary_bytes(pieces: list[bytes], block: int, packed: bool, cut: int) -> None:
    content = b"".join(pieces)
    content = gzip.compress(content)[: -cut or None] if packed else content
    blocks = [content[at : at + block] for at in range(0, len(content), block)]
    found = list(entries(blocks))
    assert all(e.line >= 1 for e in found)
    # How the content was cut into blocks changes nothing.
    again = list(entries([content]))
    assert [(type(e), e.line) for e in again] == [(type(e), e.line) for e in found]


@settings(max_examples=80)
@given(values=st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=5), block=st.integers(1, 50), indent=st.sampled_from([None, 0, 2]))  # fmt: skip
def test_what_was_written_is_read_back(values: list[Any], block: int, indent: int | None) -> None:
    for content in (
        "\n".join(json.dumps(v, indent=indent) for v in values).encode(),
        "".join(json.dumps(v) for v in values).encode(),
        json.dumps(values, indent=indent).encode(),
    ):
        found = list(entries(content[at : at + block] for at in range(0, len(content), block)))
        shown = [json.dumps(e.value) if isinstance(e, Entry) else e for e in found]
        assert shown == [json.dumps(v) for v in values]


@settings(max_examples=80)
@given(path=st.text(alphabet="ab.[]0-1\"'x", max_size=12), data=VALUES)
def test_arbitrary_paths(path: str, data: Any) -> None:
    try:
        compiled = compile_path(path)
    except ValueError:
        return
    look_up(data, compiled)
