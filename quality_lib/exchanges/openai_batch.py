"""Rows of an OpenAI batch, also as vLLM's ``run-batch`` writes it: two files joined by ``custom_id``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from quality_lib.exchanges.entries import Broken, Entry
from quality_lib.exchanges.json_fields import iso, mapping, text
from quality_lib.exchanges.openai_bodies import CHAT, COMPLETIONS, exchanges_of_bodies
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Facts, Row
from quality_lib.exchanges.rows_of_choices import rows_of_choices
from quality_lib.exchanges.source import Source, is_probe

HELD = 20_000
"""Answers held at once while their requests are looked for; a longer file is joined in several turns."""

Entries = Iterable[Entry | Broken]


@dataclass(frozen=True)
class _Output:
    custom_id: str
    line: int
    body: Mapping[str, Any]


def rows_of_batch(
    outputs: Entries, inputs: Callable[[], Entries], source: Source, key: str
) -> Iterator[Row]:
    """Join the lines of an output file with those of its input file; never raise.

    ``inputs`` reads the input file from its beginning; it is called once per ``HELD`` answers.
    An answer without its request is dropped: what is healthy depends on what was asked.
    """
    stream = iter(outputs)
    while turn := list(islice(stream, HELD)):
        waiting: dict[str, _Output] = {}
        for entry in turn:
            read = _output(entry, key)
            if not isinstance(read, _Output):
                yield read
            elif read.custom_id in waiting:
                yield Dropped(DropReason.DUPLICATE, key, read.line, read.custom_id)
            else:
                waiting[read.custom_id] = read
        if waiting:
            yield from _joined(waiting, inputs(), source, key)


def _joined(
    waiting: dict[str, _Output], inputs: Entries, source: Source, key: str
) -> Iterator[Row]:
    for entry in inputs:
        asked = mapping(entry.value) if isinstance(entry, Entry) else {}
        output = waiting.pop(text(asked.get("custom_id")), None)
        if output is not None:
            yield from _pair(asked, output, source, key)
        if not waiting:
            return
    for output in waiting.values():
        yield Dropped(DropReason.NO_REQUEST, key, output.line, output.custom_id)


def _output(entry: Entry | Broken, key: str) -> _Output | Row:
    if isinstance(entry, Broken):
        return BadLine(key, entry.line, entry.problem)
    data = mapping(entry.value)
    custom_id = text(data.get("custom_id"))
    if not custom_id or not ("response" in data or "error" in data):
        return BadLine(key, entry.line, "is no batch output: it has no custom_id or no response")
    response = mapping(data.get("response"))
    status, body = response.get("status_code"), mapping(response.get("body"))
    if data.get("error") or not response or (isinstance(status, int) and status >= 400):
        return Dropped(DropReason.FAILURE, key, entry.line, custom_id)
    if not isinstance(body.get("choices"), list):
        return Dropped(DropReason.NOT_GENERATION, key, entry.line, custom_id)
    return _Output(custom_id, entry.line, body)


def _pair(asked: Mapping[str, Any], output: _Output, source: Source, key: str) -> Iterator[Row]:
    request, url = mapping(asked.get("body")), text(asked.get("url"))
    model, line = text(request.get("model")), output.line
    reason = None
    if url and url not in {CHAT, COMPLETIONS}:
        reason = DropReason.NOT_GENERATION
    elif not source.serves(model, text(output.body.get("model"))):
        reason = DropReason.OTHER_SERVICE
    elif is_probe([request.get("user"), *mapping(request.get("metadata"))]):
        reason = DropReason.OWN_PROBE
    if reason is not None:
        yield Dropped(reason, key, line, output.custom_id)
        return
    exchanges = exchanges_of_bodies(
        request,
        output.body,
        id=output.custom_id,
        service=source.service,
        started_at=iso(output.body.get("created")),
    )
    if not exchanges:
        yield Dropped(DropReason.NO_ANSWER, key, line, output.custom_id)
    facts = Facts(
        model=model, model_served=text(output.body.get("model")), stream=False, status="success"
    )
    yield from rows_of_choices(exchanges, facts, key, line, output.custom_id)
