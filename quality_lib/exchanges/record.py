"""Writes an exchange as the product's own record; ``parse.parse_exchange`` reads it back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quality_lib.exchanges.exchange import Answer, Exchange


def record_of(
    exchange: Exchange,
    gates: Iterable[Mapping[str, Any]] = (),
    *,
    masked: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Return the JSON-ready record of one choice.

    Args:
        exchange: what was asked and answered.
        gates: what gates have said, one object each.
        masked: whether personal data has been masked already.
        more: further fields of the record, kept by every reader; ``None`` leaves a field out.
    """
    record: dict[str, Any] = {
        "id": exchange.id,
        "started_at": exchange.started_at,
        "service": exchange.service,
        "snapshot_id": exchange.snapshot_id,
        "endpoint": exchange.endpoint,
        "request": _request(exchange),
        "response": None if exchange.answer is None else _response(exchange, exchange.answer),
        "usage": _present(
            prompt_tokens=exchange.prompt_tokens, completion_tokens=exchange.completion_tokens
        ),
        "gates": [dict(gate) for gate in gates],
        "masked": masked,
    }
    record |= _present(
        expected_prompt_tokens=exchange.expected_prompt_tokens,
        nonce=exchange.nonce,
        recent_texts=_list(exchange.recent_texts) or None,
    )
    return record | _present(**more)


def _request(exchange: Exchange) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if exchange.messages is not None:
        asked["messages"] = [dict(message) for message in exchange.messages]
    elif exchange.prompt is None:
        asked["prompt"] = _list(exchange.prompt_token_ids)
    if exchange.prompt is not None:
        asked["prompt"] = exchange.prompt
    asked["params"] = dict(exchange.params)
    if exchange.tools:
        asked["tools"] = [dict(tool) for tool in exchange.tools]
    if exchange.response_format is not None:
        asked["response_format"] = dict(exchange.response_format)
    return asked


def _response(exchange: Exchange, answer: Answer) -> dict[str, Any]:
    # A prompt that was asked as token ids is told with what was asked.
    has_text = exchange.messages is not None or exchange.prompt is not None
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in answer.tool_calls]
    return {
        "text": answer.text,
        "tool_calls": calls,
        "finish_reason": answer.finish_reason,
        **_present(
            reasoning=answer.reasoning,
            prompt_token_ids=_list(exchange.prompt_token_ids) if has_text else None,
            token_ids=_list(answer.token_ids),
            logprobs=_list(answer.logprobs),
            entropies=_list(answer.entropies),
            nan_logits=answer.nan_logits,
        ),
    }


def _list(values: tuple[Any, ...] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
