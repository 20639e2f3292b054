"""Level 1: something was asked, and not too much of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quality_lib.exchanges.exchange import Exchange, text_of
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.input_limits import InputLimits
from quality_lib.records import Outcome, Verdict

CountTokens = Callable[[str], int]
"""Counts the tokens of a text with the model's own tokenizer."""

_SIZE = (
    Reason("input_size_ok", Outcome.PASSED, "Something was asked and it is not too long."),
    Reason(
        "input_empty", Outcome.FAILED, "Nothing was asked: the prompt or message list is empty."
    ),
    Reason("input_blank", Outcome.FAILED, "The prompt holds nothing but blanks."),
    Reason(
        "input_too_long",
        Outcome.FAILED,
        "The prompt has more characters than allowed.",
        "gates.input.max_characters",
    ),
    Reason(
        "input_not_recorded", Outcome.UNJUDGED, "The record holds the answer but not the prompt."
    ),
)
_TOKENS = (
    Reason(
        "input_tokens_ok", Outcome.PASSED, "The prompt has no more tokens than allowed.", "gates.input.max_tokens"
    ),
    Reason(
        "input_too_many_tokens", Outcome.FAILED, "The prompt has more tokens than allowed.", "gates.input.max_tokens"
    ),
    Reason(
        "input_tokens_not_counted",
        Outcome.UNJUDGED,
        "No limit is set, or nobody counted the tokens.",
        "gates.input.max_tokens",
    ),
)  # fmt: skip
_OK = Verdict(Outcome.PASSED, "input_size_ok", "The prompt is neither empty nor too long.")
_UNRECORDED = Verdict(Outcome.UNJUDGED, "input_not_recorded", "The prompt was not recorded.")
_BLANK = Verdict(Outcome.FAILED, "input_blank", "The prompt holds nothing but blanks.")
_UNCOUNTED = Verdict(Outcome.UNJUDGED, "input_tokens_not_counted", "The tokens were not counted.")


def input_size(limits: InputLimits) -> Gate:
    """Refuse empty, blank and overlong input; pictures and token ids count as something asked."""

    def judge(exchange: Exchange) -> Verdict:
        if exchange.messages is None and exchange.prompt is None:
            return _OK if exchange.prompt_token_ids else _UNRECORDED
        size = _characters(exchange)
        if size > limits.max_characters:
            return Verdict(
                Outcome.FAILED,
                "input_too_long",
                f"The prompt has {size:,} characters; {limits.max_characters:,} are allowed.",
                {"characters": size, "limit": limits.max_characters},
            )
        if not size or not exchange.last_asked:
            return _nothing(exchange, size)
        return _BLANK if exchange.last_asked.isspace() and not _has_parts(exchange) else _OK

    return Gate("input_size", Level.INPUT, judge, _SIZE)


def input_tokens(limits: InputLimits, count_tokens: CountTokens | None = None) -> Gate:
    """Refuse input with too many tokens; without a count of anybody nothing is said."""

    def judge(exchange: Exchange) -> Verdict:
        if limits.max_tokens is None:
            return _UNCOUNTED
        counted = _counted(exchange, count_tokens)
        if counted is None:
            return _UNCOUNTED
        evidence = {"tokens": counted, "limit": limits.max_tokens}
        if counted > limits.max_tokens:
            sentence = f"The prompt has {counted:,} tokens; {limits.max_tokens:,} are allowed."
            return Verdict(Outcome.FAILED, "input_too_many_tokens", sentence, evidence)
        return Verdict(Outcome.PASSED, "input_tokens_ok", f"{counted:,} tokens.", evidence)

    return Gate("input_tokens", Level.INPUT, judge, _TOKENS)


def _counted(exchange: Exchange, count_tokens: CountTokens | None) -> int | None:
    """What was sent counts before what the server kept of it."""
    if exchange.expected_prompt_tokens is not None:
        return exchange.expected_prompt_tokens
    if exchange.prompt_token_ids is not None:
        return len(exchange.prompt_token_ids)
    if count_tokens is not None and exchange.asked:
        return count_tokens(exchange.asked)
    return exchange.prompt_tokens or None


def _characters(exchange: Exchange) -> int:
    if exchange.messages is None:
        return len(exchange.prompt or "")
    return sum(_length(message.get("content")) for message in exchange.messages)


def _length(content: object) -> int:
    return len(content) if isinstance(content, str) else len(text_of(content))


def _nothing(exchange: Exchange, size: int) -> Verdict:
    """Judge a request whose last user message has no text: a picture or a tool's result is enough."""
    messages = exchange.messages
    if messages is None or not messages:
        where = "message list" if messages is not None else "prompt"
        return Verdict(Outcome.FAILED, "input_empty", f"The {where} is empty.")
    if _has_parts(exchange) or messages[-1].get("role") in {"tool", "function"}:
        return _OK
    if size and not any(message.get("role") == "user" for message in messages):
        return _OK
    return Verdict(Outcome.FAILED, "input_empty", "The last user message is empty.")


def _has_parts(exchange: Exchange) -> bool:
    """Whether a message carries a picture, a sound or a file."""
    return any(
        isinstance(part, Mapping) and part.get("type") not in {None, "text"}
        for message in exchange.messages or ()
        if isinstance(message.get("content"), list | tuple)
        for part in message["content"]
    )
