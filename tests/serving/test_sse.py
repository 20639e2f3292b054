from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.serving.sse import Event, SseSplitter, data_of, event_of


def events(*chunks: bytes) -> list[Event]:
    splitter = SseSplitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b'data: {"a":1}\n\n', [b'{"a":1}']),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data\n\n", [b""]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\n\n", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\r\ndata: b\r\n\r\n", [b"a\nb"]),
        (b": keep-alive\n\n", [None]),
        (b": note\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 1\n\n", [None]),
        (b"\n\ndata: a\n\n", [None, b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"database: a\n\n", [None]),
        (b"data: a\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n", []),
        (b"", []),
    ],
)
def test_events_carry_their_data(stream: bytes, data: list[bytes | None]) -> None:
    assert [event.data for event in events(stream)] == data


STREAMS = st.lists(
    st.sampled_from([
        *(b"data: a", b"data:", b"data", b": x", b"event: e", b"b", b"\n", b"\r", b"\r\n", b"\n\n"),
        *(b"\r\n\r\n", b"data: {}\n\n", b"\xf0\x9f", b""),
    ])
    | st.binary(max_size=6),
    max_size=14,
).map(b"".join)


def expected(stream: bytes) -> list[bytes]:
    """Cut as the standard says: line by line, where all is there at once."""
    found, current, position = [], b"", 0
    for line in re.finditer(rb"([^\r\n]*)(\r\n|\n|\r(?!\Z)|\r(?=\Z))", stream):
        current += line.group(0)
        position = line.end()
        if not line.group(1) and len(re.findall(rb"\r\n|\n|\r", current)) > 1:
            found.append(current)
            current = b""
    assert position <= len(stream)
    return found


@given(STREAMS, st.lists(st.integers(0, 80), max_size=6))
def test_wherever_a_stream_is_cut_the_events_are_the_same(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(c, len(stream)) for c in cuts), len(stream)]
    splitter = SseSplitter()
    pieces = [stream[a:b] for a, b in pairwise(places)]
    got = [event for piece in pieces for event in splitter.feed(piece)]
    rest = splitter.rest()
    assert b"".join(e.raw for e in got) + rest == stream
    whole = events(stream)
    assert [e.data for e in got if e.data is not None] == [
        e.data for e in whole if e.data is not None
    ]
    assert all(e.data == data_of(e.raw) for e in got)


@given(STREAMS.filter(lambda s: not s.endswith(b"\r")))
def test_the_cuts_are_where_the_standard_puts_them(stream: bytes) -> None:
    assert [e.raw for e in events(stream)] == expected(stream)


def test_an_endless_event_is_given_on_without_being_kept() -> None:
    splitter = SseSplitter(limit=10)
    assert splitter.feed(b"data: ab") == []
    assert splitter.feed(b"cdef") == [Event(b"data: abcdef", None)]
    assert splitter.too_long
    assert splitter.feed(b"\n\ndata: x\n\n") == [Event(b"\n\ndata: x\n\n", None)]
    assert splitter.rest() == b""


def test_what_is_written_is_read_again() -> None:
    assert [e.data for e in events(event_of(b'{"a": "b"}'))] == [b'{"a": "b"}']
