"""Recognises texts that a log removed or cut. Pure."""

from __future__ import annotations

from quality_lib.exchanges.exchange import Answer, Exchange, text_of

_REMOVED = {"redacted-by-litellm", "[redacted]", "<redacted>", "redacted"}
_CUT_INSIDE = "(litellm_truncated"
"""LiteLLM keeps the head and the tail, and writes this between them."""
_CUT_AT_END = ("<truncated due to size exceeding limit>", "[truncated]", "<truncated>")
"""The first is Langfuse's. Only at the very end, or an answer about such marks would be lost."""


def was_removed(text: str | None) -> bool:
    """Return whether the whole text is a mark that stands for a removed one."""
    return text is not None and len(text) <= 32 and text.strip().lower() in _REMOVED


def is_redacted(answer: Answer) -> bool:
    """Return whether the answer's text was removed before it was logged."""
    return was_removed(answer.text)


def is_truncated(exchange: Exchange) -> bool:
    """Return whether the log, not the model, cut the answer."""
    text = (exchange.answer.text if exchange.answer else None) or ""
    return _CUT_INSIDE in text or text.rstrip().endswith(_CUT_AT_END)


def is_request_whole(exchange: Exchange) -> bool:
    """Return whether the request's own texts are still there."""
    texts = [text_of(m.get("content")) for m in exchange.messages or ()]
    return not any(was_removed(t) for t in [*texts, exchange.prompt or ""])
