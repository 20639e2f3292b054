"""Level 1: tells what cleaning would change in a request. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import regex

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.normalise import TextChange, is_clean, normalise
from quality_lib.records import Outcome, Verdict

MIN_HIDDEN = 3
"""Tag characters outside flags carry text that a person does not see and a model reads."""

_REASONS = (
    Reason("input_clean", Outcome.PASSED, "Cleaning leaves the request as it is."),
    Reason("input_cleaned", Outcome.PASSED, "Cleaning changes the request; the evidence says what."),
    Reason(
        "input_hidden_text",
        Outcome.SUSPECT,
        "The request carries invisible tag characters that spell a text.",
    ),
    Reason("input_not_cleaned", Outcome.UNJUDGED, "There is no text to clean."),
)  # fmt: skip
_CLEAN = Verdict(Outcome.PASSED, "input_clean", "There is nothing to clean.")
_NOTHING = Verdict(Outcome.UNJUDGED, "input_not_cleaned", "There is no text to clean.")
_TAG = regex.compile(r"[\U000e0020-\U000e007e]")
_FLAG = regex.compile(r"\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f")


def input_cleaning() -> Gate:
    """Tell what `normalise` changes; text that is hidden from people is suspect."""

    def judge(exchange: Exchange) -> Verdict:
        texts = _texts(exchange)
        if not texts:
            return _NOTHING
        unclean = [(place, text) for place, text in texts if not is_clean(text)]
        if not unclean:
            return _CLEAN
        found: list[dict[str, Any]] = []
        for place, text in unclean:
            found += [_told(place, change) for change in normalise(text).changes]
        if not found:
            return _CLEAN
        evidence: dict[str, Any] = {"changes": found[:32]}
        hidden = sum(_hidden(text) for _, text in texts if not text.isascii())
        if hidden >= MIN_HIDDEN:
            sentence = f"{hidden} invisible characters spell a text."
            evidence["hidden_characters"] = hidden
            return Verdict(Outcome.SUSPECT, "input_hidden_text", sentence, evidence)
        kinds = ", ".join(sorted({change["kind"] for change in found}))
        return Verdict(Outcome.PASSED, "input_cleaned", f"Cleaning changes: {kinds}.", evidence)

    return Gate("input_cleaning", Level.INPUT, judge, _REASONS)


def cleaned_prompt(exchange: Exchange) -> str | None:
    """Return the cleaned prompt, or None when cleaning changes nothing.

    Of a chat, the prompt is the last user message; `clean_messages` cleans them all.
    """
    text = exchange.last_asked
    if is_clean(text):
        return None
    cleaned = normalise(text).text
    return cleaned if cleaned != text else None


def clean_messages(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], tuple[tuple[int, TextChange], ...]]:
    """Clean what users and systems wrote, with the number of the message each change is in.

    Answers of the model and results of tools go back as they were: they are quoted, not typed.
    """
    cleaned: list[dict[str, Any]] = []
    changes: list[tuple[int, TextChange]] = []
    for number, message in enumerate(messages):
        new = dict(message)
        if message.get("role") in {"user", "system", "developer"}:
            new["content"], found = _clean_content(message.get("content"))
            changes += [(number, change) for change in found]
            if "content" not in message:
                del new["content"]
        cleaned.append(new)
    return cleaned, tuple(changes)


def _clean_content(content: Any) -> tuple[Any, tuple[TextChange, ...]]:
    if isinstance(content, str):
        result = normalise(content)
        return result.text, result.changes
    if not isinstance(content, list | tuple):
        return content, ()
    parts: list[Any] = []
    changes: tuple[TextChange, ...] = ()
    for part in content:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            result = normalise(part["text"])
            changes += result.changes
            parts.append({**part, "text": result.text})
        else:
            parts.append(part)
    return parts, changes


def _texts(exchange: Exchange) -> Sequence[tuple[str, str]]:
    """Name the texts that cleaning may touch: ``prompt`` or ``messages[2]``."""
    if exchange.messages is None:
        return [("prompt", exchange.prompt)] if exchange.prompt else []
    texts: list[tuple[str, str]] = []
    for number, message in enumerate(exchange.messages):
        if message.get("role") not in {"user", "system", "developer"}:
            continue
        content = message.get("content")
        if isinstance(content, str) and content:
            texts.append((f"messages[{number}]", content))
        elif isinstance(content, list | tuple):
            parts = (part.get("text") for part in content if isinstance(part, Mapping))
            texts += [(f"messages[{number}]", text) for text in parts if isinstance(text, str)]
    return texts


def _told(place: str, change: TextChange) -> dict[str, Any]:
    return {
        "where": place,
        "kind": change.kind,
        "count": change.count,
        "offsets": list(change.offsets),
    }


def _hidden(text: str) -> int:
    """Count the tag characters that do not belong to a flag."""
    return len(_TAG.findall(_FLAG.sub("", text)))
