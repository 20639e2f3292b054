"""The response header with a probe's entropies; all other traffic passes untouched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quality_lib.serving.entropy_header import MAX_TOKENS, EntropyHeader, decode, encode
from quality_lib.serving.entropy_layout import request_key
from quality_lib.serving.entropy_reader import EntropyReader
from quality_lib.serving.entropy_writer import EntropyWriter

PROBE = [(b"x-quality-probe", b"1"), (b"x-quality-id", b"me")]


def run(
    folder: Path, headers: list[tuple[bytes, bytes]], tokens: int = 3, kind: str = "http"
) -> tuple[list[Any], EntropyReader]:
    writer, reader = EntropyWriter(folder), EntropyReader(folder)
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for i in range(tokens):
            keys = np.array([request_key("me"), 0], dtype=np.uint64)
            writer.add(np.array([i + 0.5, 9.0]), keys, 0)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"x"})

    async def send(message: Any) -> None:  # noqa: RUF029
        sent.append(message)

    async def receive() -> Any:  # noqa: RUF029
        return {}

    asyncio.run(EntropyHeader(app, reader)({"type": kind, "headers": headers}, receive, send))
    writer.close()
    return sent, reader


def test_a_probe_is_told_its_entropies(tmp_path: Path) -> None:
    sent, reader = run(tmp_path, PROBE)
    name, value = sent[0]["headers"][1]
    assert name == b"x-quality-entropies"
    assert decode(value.decode()) == (0.5, 1.5, 2.5)
    assert sent[1] == {"type": "http.response.body", "body": b"x"}
    assert reader._waiting == {}


@pytest.mark.parametrize(
    ("headers", "tokens"),
    [([], 3), (PROBE[:1], 3), (PROBE[1:], 3), (PROBE, 0), (PROBE, MAX_TOKENS + 1)],
    ids=["a client", "a probe without an id", "an id alone", "no tokens", "too many"],
)
def test_others_are_not(tmp_path: Path, headers: list[tuple[bytes, bytes]], tokens: int) -> None:
    sent, _ = run(tmp_path, headers, tokens)
    assert sent[0]["headers"] == [(b"a", b"b")]


def test_a_crash_of_the_server_leaves_nothing_behind(tmp_path: Path) -> None:
    reader = EntropyReader(tmp_path)

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: RUF029
        raise RuntimeError("boom")

    async def nothing(*_: Any) -> Any:  # noqa: RUF029
        return {}

    with pytest.raises(RuntimeError, match="boom"):
        asyncio.run(
            EntropyHeader(app, reader)({"type": "http", "headers": PROBE}, nothing, nothing)
        )
    assert reader._waiting == {}


def test_half_floats_are_good_enough() -> None:
    values = [0.0, 0.0123, 0.5, 4.321, 10.8]
    assert decode(encode(values).decode()) == pytest.approx(values, rel=1e-3)
    with pytest.raises(ValueError, match=r"base64|Incorrect|padding|Only"):
        decode("*")
