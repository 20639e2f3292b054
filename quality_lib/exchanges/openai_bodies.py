"""Exchanges from a request body and a response body of the OpenAI interface. Pure.

Gateways, batch files and proxies log these two bodies under many names; inside they are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quality_lib.exchanges.exchange import Answer, Exchange, ToolCall
from quality_lib.exchanges.json_fields import count, mapping, mappings, text

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_NO_PARAMS = {
    "messages", "prompt", "input", "tools", "functions", "response_format", "model", "stream",
    "stream_options", "user", "metadata", "extra_body", "extra_headers", "extra_query",
}  # fmt: skip
_ID_MARK = "token_id:"
"""vLLM writes tokens so when it is asked for ids in place of texts."""


def exchanges_of_bodies(
    request: Mapping[str, Any],
    response: Mapping[str, Any],
    *,
    id: str,
    service: str = "",
    started_at: str = "",
) -> tuple[Exchange, ...]:
    """Return one exchange per choice, in the order of their index; none when there are no choices.

    The choices of one request are told apart by ``#0``, ``#1`` behind its id.
    """
    choices = sorted(mappings(response.get("choices")), key=lambda c: count(c.get("index")) or 0)
    usage = mapping(response.get("usage"))
    completion_tokens = count(usage.get("completion_tokens"))
    asked = _asked(request)
    made = []
    for number, choice in enumerate(choices):
        answer = answer_of_choice(choice)
        made.append(
            Exchange(
                id=id if len(choices) == 1 else f"{id}#{number}",
                **asked,
                answer=answer,
                prompt_tokens=count(usage.get("prompt_tokens")),
                # The usage counts all choices together; only log-probabilities tell them apart.
                completion_tokens=completion_tokens if len(choices) == 1 else _length(answer),
                service=service,
                endpoint=CHAT if "message" in choice else COMPLETIONS,
                started_at=started_at,
            )
        )
    return tuple(made)


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    messages, prompt = request.get("messages"), request.get("prompt")
    response_format = request.get("response_format")
    return {
        "messages": mappings(messages) if isinstance(messages, list) else None,
        "prompt": prompt if isinstance(prompt, str) else _only_text(prompt),
        "prompt_token_ids": _ids(prompt),
        "params": params_of(request),
        "tools": mappings(request.get("tools")) or _old_functions(request.get("functions")),
        "response_format": response_format if isinstance(response_format, Mapping) else None,
    }


def params_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling parameters of a request body, those of vLLM's ``extra_body`` included."""
    extra = mapping(request.get("extra_body"))
    return {
        str(name): value
        for name, value in {**extra, **request}.items()
        if name not in _NO_PARAMS and value is not None
    }


def answer_of_choice(choice: Mapping[str, Any]) -> Answer:
    """Return the answer that one choice of a response holds."""
    message = mapping(choice.get("message"))
    content = message.get("content") if "message" in choice else choice.get("text")
    extra = mapping(message.get("provider_specific_fields"))
    more = mapping(choice.get("provider_specific_fields"))
    logprobs, ids = _logprobs(choice.get("logprobs"))
    return Answer(
        text=content if isinstance(content, str) else _joined(content),
        tool_calls=tool_calls_of(message),
        reasoning=next(
            (
                part
                for source in (message, extra)
                for name in ("reasoning_content", "reasoning")
                if isinstance(part := source.get(name), str)
            ),
            None,
        ),
        finish_reason=text(choice.get("finish_reason")) or None,
        token_ids=_ids(choice.get("token_ids")) or _ids(more.get("token_ids")) or ids,
        logprobs=logprobs,
    )


def tool_calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message, in today's form or as the one ``function_call`` of old."""
    calls = mappings(message.get("tool_calls"))
    if not calls and isinstance(message.get("function_call"), Mapping):
        calls = ({"function": message["function_call"]},)
    return tuple(
        ToolCall(
            name=text(mapping(call.get("function")).get("name")),
            arguments=text(mapping(call.get("function")).get("arguments")),
            id=text(call.get("id")),
        )
        for call in calls
    )


def _joined(content: Any) -> str | None:
    """Return the text of a content in parts; None where the server sent null."""
    if not isinstance(content, list):
        return None
    return "".join(text(part.get("text")) for part in mappings(content))


def _only_text(prompt: Any) -> str | None:
    """Return the prompt of a list of one; lists of several, or of token ids, have no one text."""
    return (
        prompt[0]
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str)
        else None
    )


def _old_functions(functions: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple({"type": "function", "function": f} for f in mappings(functions))


def _logprobs(value: Any) -> tuple[tuple[float, ...] | None, tuple[int, ...] | None]:
    """Return the log-probabilities of the chosen tokens, and their ids where the tokens are ids."""
    data = mapping(value)
    content = mappings(data.get("content"))
    numbers = [t.get("logprob") for t in content] if content else data.get("token_logprobs")
    tokens = [t.get("token") for t in content] if content else data.get("tokens")
    if not isinstance(numbers, list) or not numbers:
        return None, None
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        return None, None
    ids = None
    if isinstance(tokens, list) and len(tokens) == len(numbers):
        written = [text(t).removeprefix(_ID_MARK) for t in tokens if text(t).startswith(_ID_MARK)]
        if len(written) == len(tokens) and all(w.isascii() and w.isdigit() for w in written):
            ids = tuple(int(w) for w in written if len(w) < 10) or None
    return tuple(_as_float(n) for n in numbers), ids


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("-inf")


def _ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    return tuple(value) if all(type(v) is int for v in value) else None


def _length(answer: Answer) -> int | None:
    known = answer.token_ids or answer.logprobs
    return len(known) if known else None
