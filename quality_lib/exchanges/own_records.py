"""Rows of the records that the guarded server writes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.exchanges.json_fields import count, flag, mapping, mappings, text, texts
from quality_lib.exchanges.log_name import LogName
from quality_lib.exchanges.parse import parse_exchange
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Facts, Row
from quality_lib.exchanges.rows_of_choices import rows_of_choices
from quality_lib.exchanges.source import Reader, Source, is_probe
from quality_lib.records import Outcome, Verdict

_STREAM_LEVEL = 3
_BAD = {Outcome.FAILED.value: Outcome.FAILED, Outcome.SUSPECT.value: Outcome.SUSPECT}


def own_records(source: Source) -> Reader:
    """Read our own exchange records, long or short."""

    def rows(data: Mapping[str, Any], key: str, line: int) -> Iterator[Row]:
        request_id = text(data.get("request_id")) or text(data.get("id")) or f"{key}:{line}"
        reason = _left_out(data, source)
        if reason is not None:
            yield Dropped(reason, key, line, request_id)
        else:
            yield from _judged(data, key, line, request_id)

    return rows


def _left_out(data: Mapping[str, Any], source: Source) -> DropReason | None:
    service = text(data.get("service"))
    response = mapping(data.get("response"))
    checks = (
        (DropReason.OTHER_SERVICE, bool(source.service and service and service != source.service)),
        (DropReason.OTHER_SERVICE, not source.serves(_model(data))),
        (DropReason.OWN_PROBE, bool(flag(data.get("probe"))) or is_probe(texts(data.get("tags")))),
        (DropReason.FAILURE, _failed(data)),
        # The client hung up: what is there is no finished answer.
        (
            DropReason.NO_ANSWER,
            bool(data.get("disconnected")) and not response.get("finish_reason"),
        ),
        # A very long answer whose beginning or end the guard did not keep.
        (DropReason.TRUNCATED, bool(data.get("dropped"))),
    )
    return next((reason for reason, holds in checks if holds), None)


def _failed(data: Mapping[str, Any]) -> bool:
    status = data.get("status")
    if isinstance(status, int) and not isinstance(status, bool) and status >= 400:
        return True
    # The server may also break off in the middle of an answer: "raised" holds the error's name.
    return text(status) in {"failure", "error"} or bool(data.get("error") or data.get("raised"))


def _judged(data: Mapping[str, Any], key: str, line: int, request_id: str) -> Iterator[Row]:
    try:
        exchange = parse_exchange(data)
    except BadInput as bad:
        # The message may quote the value, which is a user's text; the field's name is enough.
        field = f"field '{bad.field}': " if bad.field else ""
        yield BadLine(key, line, f"{field}{bad.problem.split(', not ')[0]}")
        return
    yield from rows_of_choices((exchange,), _facts(data, key), key, line, request_id)


def _model(data: Mapping[str, Any]) -> str:
    return text(data.get("model")) or text(mapping(data.get("request")).get("model"))


def _facts(data: Mapping[str, Any], key: str) -> Facts:
    status = data.get("status")
    model, first = _model(data), data.get("first_byte_s")
    streams = flag(data.get("stream", mapping(data.get("request")).get("stream")))
    return Facts(
        model=model,
        model_served=model,
        backend=text(data.get("instance")) or _instance(key),
        stream=bool(streams),
        status=str(status) if isinstance(status, int | str) else "",
        tags=texts(data.get("tags")),
        first_token_s=float(first) if isinstance(first, float) and streams else None,
        stream_verdicts=tuple(_stream_verdicts(data)),
        masked=frozenset(
            name.split(".")[0] for name in texts(mapping(data.get("masked")).get("fields"))
        ),
    )


def _stream_verdicts(data: Mapping[str, Any]) -> Iterator[Verdict]:
    for said in mappings(data.get("gates")):
        outcome, reason = _BAD.get(text(said.get("outcome"))), text(said.get("reason"))
        if outcome is not None and reason and count(said.get("level")) == _STREAM_LEVEL:
            yield Verdict(outcome, reason, text(said.get("sentence")))


def _instance(key: str) -> str:
    """Return the process that wrote the file: its name says so."""
    name = LogName.parse(key.rsplit("/", 1)[-1].removesuffix(".gz"))
    return name.instance if name else ""
