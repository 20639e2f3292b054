"""Reads an exchange from the product's own record or its short form. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.exchanges.answer_fields import answer_of
from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.field_types import Fields, WrongField, counted, ids, text

SAMPLING_FIELDS = frozenset({
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "max_tokens", "max_completion_tokens", "min_tokens", "n", "seed", "stop",
})  # fmt: skip
"""Parameters that are also found beside ``messages``, where an OpenAI body has them."""

_NO_ASK = "add 'prompt' (a text) or 'messages' (a list of {role, content})"


def parse_exchange(
    data: Any, *, file: Path | str | None = None, line: int | None = None
) -> Exchange:
    """Read the full record or the short form; fields that are not known are ignored.

    A record that holds no text, tool call, response or finish reason is a request alone.

    Raises:
        BadInput: when a known field has another type than it must, or nothing was asked or answered.
    """
    try:
        return _exchange(data)
    except WrongField as wrong:
        raise BadInput(
            wrong.problem, file=file, line=line, field=wrong.field or None, fix=wrong.fix
        ) from None


def _exchange(data: Any) -> Exchange:
    if not isinstance(data, Mapping):
        raise WrongField("", "the line holds no JSON object", "write one record as one {…} object")
    record = Fields(data)
    request = record.inner("request")
    response = record.inner("response")
    answer = answer_of(record, response)
    messages = _messages(request.get("messages", record.get("messages")))
    prompt, prompt_ids = _prompt(request.get("prompt", record.get("prompt")))
    is_asked = messages is not None or prompt is not None or prompt_ids is not None
    if answer is None and not is_asked:
        raise WrongField("prompt", "the record holds neither a request nor an answer", _NO_ASK)
    usage = record.inner("usage")
    return Exchange(
        id=_name(record, "id"),
        messages=messages,
        prompt=prompt,
        params=_params(record, request),
        tools=_objects(request.get("tools", record.get("tools")), "tools"),
        response_format=_format(request.get("response_format", record.get("response_format"))),
        answer=answer,
        prompt_tokens=counted(usage.get("prompt_tokens"), "usage.prompt_tokens"),
        completion_tokens=counted(usage.get("completion_tokens"), "usage.completion_tokens"),
        expected_prompt_tokens=counted(
            record.get("expected_prompt_tokens"), "expected_prompt_tokens"
        ),
        prompt_token_ids=prompt_ids
        or ids(
            response.get("prompt_token_ids", record.get("prompt_token_ids")), "prompt_token_ids"
        ),
        nonce=text(record.get("nonce"), "nonce"),
        recent_texts=_recent(record.get("recent_texts")),
        service=_name(record, "service"),
        snapshot_id=_name(record, "snapshot_id"),
        endpoint=_name(record, "endpoint"),
        started_at=_name(record, "started_at"),
    )


def _name(record: Fields, field: str) -> str:
    """Names and ids are texts; a number is written out, so that no id is lost."""
    value = record.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return text(value, field) or ""


def _messages(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    if value is None:
        return None
    messages = _objects(value, "messages")
    for number, message in enumerate(messages):
        content = message.get("content")
        if content is not None and not isinstance(content, str | list | tuple):
            raise WrongField(
                f"messages[{number}].content",
                f"must be a text or a list of parts, not {_kind(content)}",
                'write "content": "…"',
            )
        role = message.get("role")
        if not isinstance(role, str):
            raise WrongField(
                f"messages[{number}].role",
                f"must be a text, not {_kind(role)}",
                'write "role": "user"',
            )
    return messages


def _prompt(value: Any) -> tuple[str | None, tuple[int, ...] | None]:
    """Read a completions prompt: a text, a list of one text, or token ids."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, list | tuple):
        if len(value) == 1 and isinstance(value[0], str):
            return value[0], None
        if value and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
            return None, tuple(value)
        if len(value) > 1 and all(isinstance(v, str) for v in value):
            raise WrongField(
                "prompt", f"holds {len(value)} prompts", "write one record per prompt and answer"
            )
    raise WrongField("prompt", f"must be a text, not {_kind(value)}", 'write "prompt": "…"')


def _params(record: Fields, request: Fields) -> dict[str, Any]:
    """Merge parameters wherever they stand; the nearest to ``params`` wins."""
    beside = {
        name: value
        for fields in (record.values, request.values)
        for name, value in fields.items()
        if name in SAMPLING_FIELDS
    }
    return {**beside, **record.inner("params").values, **request.inner("params").values}


def _objects(value: Any, field: str) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise WrongField(field, f"must be a list, not {_kind(value)}", f'write "{field}": […]')
    for number, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise WrongField(
                f"{field}[{number}]", f"must be an object, not {_kind(item)}", "write {…}"
            )
    return tuple(value)


def _format(value: Any) -> Mapping[str, Any] | None:
    """A bare name such as ``json_schema`` stands for an object with that ``type``."""
    if value is None or isinstance(value, Mapping):
        return value
    if isinstance(value, str):
        return {"type": value} if value else None
    raise WrongField(
        "response_format",
        f"must be an object or a text, not {_kind(value)}",
        'write "response_format": {"type": "json_object"}',
    )


def _recent(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(value)
    raise WrongField("recent_texts", "must be a list of texts", 'write "recent_texts": ["…"]')


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    return json.dumps(value, default=str)[:40]
