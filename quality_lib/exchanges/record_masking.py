"""Masks whole exchange records before they are written. Pure.

Every text of a record is masked, gate evidence included. Where anything of an answer was masked, its
token ids, token texts and their bytes go too, since they spell the same text; log-probabilities and
entropies stay. The record says what happened in ``masked``: kinds with counts, the fields, and what
was dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from quality_lib.exchanges.masking import mask_into, may_hold

UNMASKED = frozenset({"id", "request_id", "started_at", "service", "snapshot_id", "endpoint"})
"""Fields of a record that join it to other logs: never masked."""

SPELLING = frozenset({
    *("token_ids", "prompt_token_ids", "tokens", "token", "bytes", "top_logprobs"),
    *("decoded_token", "text_offset"),
})
"""Keys of a response whose values spell its text token by token."""

PROMPT = frozenset({"prompt_token_ids"})
"""Keys, in either part, that spell the prompt."""

NUMBERS = frozenset({"logprobs", "entropies", "token_ids", "prompt_token_ids"})
"""Keys that hold long arrays of numbers, the bulk of a record with detail."""

_ID = re.compile(r"[A-Za-z][A-Za-z0-9_:#-]{0,127}")

MAX_INLINE = 1024
"""Characters of a ``data:`` address (an image in a message) beyond which only its size is kept."""


def mask_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record masked, with ``masked`` telling what was found; the given one is untouched.

    ``masked`` is ``{}`` when there was nothing to mask.
    """
    walk = _Walk()
    result = {
        key: walk.clean(item, key) if _is_searched(key, item) else item
        for key, item in record.items()
        if key != "masked"
    }
    names = SPELLING if walk.found("response") else PROMPT if walk.found("request") else frozenset()
    if names:
        for part in ("request", "response"):
            if part in result:
                result[part] = walk.drop(
                    result[part], part, names if part == "response" else PROMPT
                )
    if walk.kinds and "gates" in result:
        result["gates"] = _without_quotes(result["gates"])
    result["masked"] = walk.summary()
    return result


class _Walk:
    """One pass over a record."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.fields: set[str] = set()
        self.dropped: set[str] = set()

    def found(self, part: str) -> bool:
        """Return whether anything in a part of the record was masked."""
        return any(name.split(".")[0] == part for name in self.fields)

    def summary(self) -> dict[str, Any]:
        """Return what the record says of it."""
        if not self.kinds and not self.dropped:
            return {}
        return {
            "kinds": dict(self.kinds),
            "fields": sorted(self.fields),
            "dropped": sorted(self.dropped),
        }

    def clean(self, value: Any, path: str) -> Any:
        """Return the value with every text in it masked; ``path`` is where it lies in the record."""
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, Mapping):
            return {key: self._item(item, path, key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(item, path) for item in value]
        return value

    def drop(self, value: Any, path: str, names: Set[str]) -> Any:
        """Return the value without the named keys, however deep, and note which there were."""
        if isinstance(value, Mapping):
            gone = {key for key in value if key in names and value[key] is not None}
            self.dropped.update(f"{path}.{key}" for key in gone)
            return {
                k: self.drop(v, f"{path}.{k}", names) for k, v in value.items() if k not in gone
            }
        if isinstance(value, list | tuple):
            if value and isinstance(value[0], int | float):
                return value
            return [self.drop(item, path, names) for item in value]
        return value

    def _item(self, value: Any, path: str, key: Any) -> Any:
        if key in {"id", "tool_call_id"} and isinstance(value, str) and _ID.fullmatch(value):
            return value  # digits in a generated id are no phone number
        if key in NUMBERS and isinstance(value, list | tuple) and _is_numbers(value):
            return value
        if key in SPELLING and path.startswith("response"):
            return value  # judged by the text that it spells
        if key == "prompt" and path == "request" and _is_ids(value):
            # Without the tokenizer nobody can say what these spell.
            self.dropped.add("request.prompt")
            return None
        return self.clean(value, f"{path}.{key}")

    def _text(self, text: str, path: str) -> str:
        if len(text) > MAX_INLINE and text.startswith("data:"):
            return f"{text[:64].split(',', 1)[0]},[{len(text)} characters]"
        masked = mask_into(text, self.kinds)
        if masked != text:
            self.fields.add(".".join(path.split(".")[:2]))
        return masked


_NUMERIC = {int, float, bool, type(None)}


def _is_numbers(values: Sequence[Any]) -> bool:
    return set(map(type, values)) <= _NUMERIC


def _is_ids(value: Any) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(v, int) or _is_ids(v) for v in value)


def _is_searched(key: str, item: Any) -> bool:
    if key in UNMASKED:
        return False
    # Many short texts, seldom anything to mask.
    return key != "gates" or _has_text_to_mask(item)


def _has_text_to_mask(value: Any) -> bool:
    """Return whether any text in it may hold something, by one look at all of them together."""
    texts: list[str] = []
    _collect(value, texts)
    return bool(texts) and may_hold("\n".join(texts))


def _collect(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            _collect(item, texts)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, texts)


def _without_quotes(value: Any) -> Any:
    """Drop snippets of text from gate evidence: a snippet may hold half of a masked value."""
    if isinstance(value, Mapping):
        return {
            key: _without_quotes_in(item) if key == "evidence" else _without_quotes(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_quotes(item) for item in value]
    return value


_CODE = re.compile(r"[a-z_]{1,40}")


def _without_quotes_in(value: Any) -> Any:
    if isinstance(value, str):
        return value if _CODE.fullmatch(value) else "[text]"
    if isinstance(value, Mapping):
        return {key: _without_quotes_in(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_quotes_in(item) for item in value]
    return value
