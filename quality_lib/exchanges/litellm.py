"""Rows of LiteLLM's standard logging payload, as its S3 loggers write it. Pure.

One payload is one request to one deployment; with retries a request has several payloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from quality_lib.exchanges.json_fields import (
    flag,
    iso,
    mapping,
    seconds_between,
    text,
    texts,
    unpacked,
)
from quality_lib.exchanges.openai_bodies import exchanges_of_bodies
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Facts, Row
from quality_lib.exchanges.rows_of_choices import rows_of_choices
from quality_lib.exchanges.source import Reader, Source, is_probe

GENERATIONS = {"completion", "acompletion", "text_completion", "atext_completion", ""}
"""Call types whose response has ``choices``. The empty one: payloads of before call types."""


def litellm(source: Source) -> Reader:
    """Read ``StandardLoggingPayload`` objects."""

    def rows(data: Mapping[str, Any], key: str, line: int) -> Iterator[Row]:
        if not ("call_type" in data or "model_parameters" in data or "status" in data):
            yield BadLine(
                key, line, "is no LiteLLM payload: it has no call_type, status or model_parameters"
            )
            return
        request_id = text(data.get("id")) or text(data.get("litellm_call_id"))
        reason = _left_out(data, source)
        if reason is not None:
            yield Dropped(reason, key, line, request_id)
            return
        response = mapping(unpacked(data.get("response")))
        exchanges = exchanges_of_bodies(
            _request(data),
            _with_usage(response, data),
            id=request_id or f"{key}:{line}",
            service=source.service,
            started_at=iso(data.get("startTime")),
        )
        if not exchanges:
            # A success without its answer: the text was left out of the log, by whichever setting.
            yield Dropped(DropReason.REDACTED, key, line, request_id)
        yield from rows_of_choices(
            exchanges, _facts(data), key, line, request_id or f"{key}:{line}"
        )

    return rows


def _left_out(data: Mapping[str, Any], source: Source) -> DropReason | None:
    metadata = mapping(data.get("metadata"))
    checks = (
        (
            DropReason.OTHER_SERVICE,
            not source.serves(text(data.get("model_group")), text(data.get("model"))),
        ),
        (DropReason.OWN_PROBE, _is_probe(data, metadata)),
        (DropReason.NOT_GENERATION, text(data.get("call_type")) not in GENERATIONS),
        (DropReason.SILENT_EXPERIMENT, bool(flag(metadata.get("is_silent_experiment")))),
        (DropReason.CACHE_HIT, bool(flag(data.get("cache_hit")))),
        (DropReason.FAILURE, data.get("status") == "failure" or bool(data.get("error_str"))),
    )
    return next((reason for reason, holds in checks if holds), None)


def _is_probe(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    asked = mapping(metadata.get("requester_metadata"))
    names = [
        *texts(data.get("request_tags")),
        data.get("end_user"),
        mapping(data.get("model_parameters")).get("user"),
    ]
    return is_probe(names, (metadata.get("requester_custom_headers"), asked.get("headers")))


def _request(data: Mapping[str, Any]) -> dict[str, Any]:
    """Put the request body together again; the prompt of a completion is logged as messages."""
    asked = unpacked(data.get("messages"))
    body = dict(mapping(unpacked(data.get("model_parameters"))))
    if isinstance(asked, str):
        return {**body, "prompt": asked}
    if isinstance(asked, Mapping):
        # As pass-through routes log it: the body itself.
        return {**asked, **body} if "messages" in asked else {**body, "messages": [asked]}
    return {**body, "messages": asked}


def _with_usage(response: Mapping[str, Any], data: Mapping[str, Any]) -> Mapping[str, Any]:
    usage = {
        name: data.get(name) for name in ("prompt_tokens", "completion_tokens") if data.get(name)
    }
    return {**response, "usage": {**usage, **mapping(response.get("usage"))}}


def _facts(data: Mapping[str, Any]) -> Facts:
    response = mapping(data.get("response"))
    start, first = data.get("startTime"), data.get("completionStartTime")
    # Without streaming LiteLLM sets the first token's time to the end.
    streamed = flag(data.get("stream"))
    return Facts(
        model=text(data.get("model_group")) or text(data.get("model")),
        model_served=text(response.get("model")) or text(data.get("model")),
        backend=address(data.get("api_base")) or text(data.get("model_id")),
        stream=bool(streamed),
        status=text(data.get("status")),
        tags=texts(data.get("request_tags")),
        ended_at=iso(data.get("endTime")),
        first_token_s=seconds_between(start, first) if streamed else None,
    )


def address(value: Any) -> str:
    """Return scheme, host and port of an address: paths and users may hold keys."""
    try:
        parts = urlsplit(text(value))
        host = parts.netloc.rsplit("@", 1)[-1]
    except ValueError:
        return ""
    return f"{parts.scheme}://{host}" if host else ""
