"""One request with its answer, as gates see it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool as the model wrote it."""

    name: str
    arguments: str
    """The JSON text exactly as generated; it may not parse."""
    id: str = ""


@dataclass(frozen=True)
class Answer:
    """One finished choice of a response; a response with ``n`` choices gives ``n`` exchanges."""

    text: str | None
    """None: the server sent null."""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    finish_reason: str | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Natural logarithms of the chosen tokens' probabilities, one per token."""
    entropies: tuple[float, ...] | None = None
    """Entropy of the next-token distribution per step in nats, where the server measured it."""
    nan_logits: int | None = None
    """Steps whose logits held NaN or infinity, where the server counted them."""


@dataclass(frozen=True)
class Exchange:
    """What was asked and what came back; ``answer`` is None for a request alone."""

    id: str = ""
    messages: tuple[Mapping[str, Any], ...] | None = None
    prompt: str | None = None
    """The text of a completions request, or the last user message of the short form."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters by their OpenAI or vLLM names, only those that were sent."""
    tools: tuple[Mapping[str, Any], ...] = ()
    response_format: Mapping[str, Any] | None = None
    answer: Answer | None = None
    prompt_tokens: int | None = None
    """As the server counted them."""
    completion_tokens: int | None = None
    expected_prompt_tokens: int | None = None
    """As counted with the model's own tokenizer before sending."""
    prompt_token_ids: tuple[int, ...] | None = None
    """The prompt after the chat template, as the server returned it (``return_token_ids``)."""
    nonce: str | None = None
    """A planted text that the answer must hold."""
    recent_texts: tuple[str, ...] = ()
    """Recent answers to the same prompt and parameters, newest first."""
    service: str = ""
    snapshot_id: str = ""
    endpoint: str = ""
    started_at: str = ""

    @property
    def asked(self) -> str:
        """Return all that the caller wrote, as one text: system, user and tool messages or the prompt."""
        if self.messages is None:
            return self.prompt or ""
        return "\n".join(
            text for message in self.messages if (text := text_of(message.get("content")))
        )

    @property
    def last_asked(self) -> str:
        """Return the last user message, or the prompt."""
        for message in reversed(self.messages or ()):
            if message.get("role") == "user":
                return text_of(message.get("content"))
        return self.prompt or ""


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is a text, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""
