"""Reads the answer of a record: text, tool calls, log-probabilities. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quality_lib.exchanges.exchange import Answer, ToolCall, text_of
from quality_lib.exchanges.field_types import Fields, WrongField, counted, ids, numbers, text

_SHORT_LISTS = ("tool_calls", "token_ids", "logprobs")
_SHORT_TEXTS = ("finish_reason", "reasoning", "reasoning_content")


def answer_of(record: Fields, response: Fields) -> Answer | None:
    """Return the answer, or None when the record is a request alone."""
    if not _has_answer(record):
        return None
    source = _merged(record, response)
    return Answer(
        text=_answer_text(source.get("text")),
        tool_calls=_tool_calls(source.get("tool_calls")),
        reasoning=text(source.get("reasoning", source.get("reasoning_content")), "reasoning"),
        finish_reason=text(source.get("finish_reason"), "finish_reason"),
        token_ids=ids(source.get("token_ids"), "token_ids"),
        logprobs=_logprobs(source.get("logprobs")),
        entropies=numbers(source.get("entropies"), "entropies"),
        nan_logits=counted(source.get("nan_logits"), "nan_logits"),
    )


def _has_answer(record: Fields) -> bool:
    """Whether anything came back; a null text alone is no answer, with tokens used it is."""
    if record.get("response") is not None or record.get("text") is not None:
        return True
    given = [record.get(name) for name in _SHORT_LISTS]
    if any(value and isinstance(value, list | tuple | Mapping) for value in given):
        return True
    if any(record.get(name) for name in _SHORT_TEXTS):
        return True
    usage = record.get("usage")
    return isinstance(usage, Mapping) and bool(usage.get("completion_tokens"))


def _merged(record: Fields, response: Fields) -> Fields:
    """Lay the response over the short form; a whole OpenAI body gives its one choice."""
    choices = response.get("choices")
    if choices is None:
        return Fields({**record.values, **_known(response.values)})
    if not isinstance(choices, list | tuple) or len(choices) != 1:
        raise WrongField(
            "response.choices",
            "must hold exactly one choice",
            "write one record per choice, with its text as response.text",
        )
    choice = Fields({"choice": choices[0]}).inner("choice")
    message = choice.inner("message").values
    spoken = {
        **choice.values,
        **message,
        "text": message.get("content", choice.get("text")),
    }
    return Fields({**record.values, **_known(spoken)})


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _answer_text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return text_of(value)
    return text(value, "text")


def _tool_calls(value: Any) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise WrongField("tool_calls", "must be a list", 'write "tool_calls": [{…}]')
    return tuple(_tool_call(item, number) for number, item in enumerate(value))


def _tool_call(value: Any, number: int) -> ToolCall:
    """Read a call, nested as OpenAI writes it or flat; what the model got wrong stays as it is."""
    field = f"tool_calls[{number}]"
    if not isinstance(value, Mapping):
        raise WrongField(field, "must be an object", 'write {"name": "…", "arguments": "…"}')
    nested = value.get("function")
    call = nested if isinstance(nested, Mapping) else value
    arguments = call.get("arguments")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    name, call_id = call.get("name"), value.get("id")
    return ToolCall(
        name=name if isinstance(name, str) else "",
        arguments=arguments,
        id=call_id if isinstance(call_id, str) else "",
    )


def _logprobs(value: Any) -> tuple[float, ...] | None:
    """Read a plain list, a list of ``{logprob}``, or the shape of either OpenAI endpoint."""
    if isinstance(value, bool):
        return None  # a flat OpenAI body asks for them with ``true``
    if isinstance(value, Mapping):
        value = value.get("content", value.get("token_logprobs"))
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        value = [v.get("logprob") if isinstance(v, Mapping) else v for v in value]
    return numbers(value, "logprobs")
