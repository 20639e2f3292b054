"""What the guard reads of vLLM's answers: chunks of a stream and whole bodies alike.

Unknown fields are skipped by the decoder, which is what makes reading every chunk affordable.
"""

from __future__ import annotations

import msgspec


class FunctionPart(msgspec.Struct):
    """The function of a tool call, or a piece of its arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallPart(msgspec.Struct):
    """A tool call, or a piece of it; whole bodies carry no index."""

    index: int | None = None
    id: str | None = None
    function: FunctionPart | None = None


class MessagePart(msgspec.Struct):
    """A message, or what is added to it."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    """The name that older releases use."""
    refusal: str | None = None
    tool_calls: list[ToolCallPart] | None = None


class TokenPart(msgspec.Struct):
    """One token's log-probability, as chat tells it."""

    logprob: float | None = None


class LogprobsPart(msgspec.Struct):
    """Log-probabilities: ``content`` from chat, ``token_logprobs`` from completions."""

    content: list[TokenPart] | None = None
    token_logprobs: list[float | None] | None = None


class ChoicePart(msgspec.Struct):
    """One choice, or what is added to it."""

    index: int = 0
    delta: MessagePart | None = None
    message: MessagePart | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: LogprobsPart | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    """Of a completion."""


class UsagePart(msgspec.Struct):
    """The token counts of a request."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class AnswerPart(msgspec.Struct):
    """A whole body or one chunk."""

    id: str | None = None
    choices: list[ChoicePart] | None = None
    usage: UsagePart | None = None
    prompt_token_ids: list[int] | None = None
    """Of a chat."""
    error: msgspec.Raw = msgspec.Raw()
    """Empty when there is none."""


class ErrorPart(msgspec.Struct):
    """What an error tells; older releases put it at the top level."""

    message: str | None = None
    type: str | None = None


def tells_nan(message: str) -> bool:
    """Return whether an error is that of Python's JSON encoder at a NaN among the numbers."""
    return "not JSON compliant" in message


decode_answer = msgspec.json.Decoder(AnswerPart).decode
decode_error = msgspec.json.Decoder(ErrorPart).decode
