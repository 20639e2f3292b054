"""Masks personal data and secrets in a text: a value becomes its kind in brackets. Pure.

Most texts hold nothing. Translating their bytes into the few shapes that matter and looking for a run
costs a microsecond a kilobyte, a tenth of one regular expression.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quality_lib.exchanges import personal_data, secret_text
from quality_lib.exchanges.personal_data import PersonalShape
from quality_lib.exchanges.secret_text import SecretShape

SHORTEST = len("a@b.cd")
"""No value of any kind is shorter."""


@dataclass(frozen=True)
class MaskedText:
    """A text without personal data."""

    text: str
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How many values of which kind were masked; empty when the text is as it was."""


_DIGITS = bytes(0x30 if 0x30 <= b <= 0x39 else 0x78 for b in range(256))
_DIGIT_SEPARATORS = b" ().-/"
_DOTTED = bytes(0x30 if 0x30 <= b <= 0x39 else 0x2E if b == 0x2E else 0x78 for b in range(256))
_KEY_BYTES = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-/+=.~!#$%^&*@"
)
_KEYS = bytes(0x6B if b in _KEY_BYTES else 0x20 for b in range(256))


def mask_text(text: str) -> MaskedText:
    """Return the text with every value found replaced by its kind in brackets."""
    kinds: Counter[str] = Counter()
    return MaskedText(mask_into(text, kinds), dict(kinds))


def mask_into(text: str, kinds: Counter[str]) -> str:
    """As ``mask_text``, adding to ``kinds``."""
    masked = _mask(text, kinds)
    if masked != text and text.lstrip()[:1] in {"{", "["}:
        return _keep_json(text, masked)
    return masked


def _mask(text: str, kinds: Counter[str]) -> str:
    if text.isalpha() or len(text) < SHORTEST:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    if b"k" * secret_text.SHORTEST in raw.translate(_KEYS) or b"PRIVATE KEY" in raw:
        text = _mask_secrets(text, kinds)
    if b"@" in raw:
        text = _replace_secret(text, secret_text.PASSWORD_IN_ADDRESS, kinds)
        text = _replace(text, personal_data.EMAIL, kinds)
    if b"0000000" in raw.translate(_DIGITS, _DIGIT_SEPARATORS):
        text = _replace(text, personal_data.IBAN, kinds)
        text = _replace(text, personal_data.CARD, kinds)
        for shape in personal_data.PHONES:
            text = _replace(text, shape, kinds)
    if raw.count(b".") >= 3 and _has_octet(raw.translate(_DOTTED)):
        text = _replace(text, personal_data.IPV4, kinds)
    colons = raw.count(b":")
    if colons >= 7 or (colons >= 2 and b"::" in raw):
        text = _replace(text, personal_data.IPV6, kinds)
    return text


def may_hold(text: str) -> bool:
    """Return whether a text is worth a search; a few false alarms, no misses."""
    raw = text.encode("utf-8", "surrogatepass")
    return (
        b"k" * secret_text.SHORTEST in raw.translate(_KEYS)
        or b"@" in raw
        or b"PRIVATE KEY" in raw
        or b"0000000" in raw.translate(_DIGITS, _DIGIT_SEPARATORS)
        or (raw.count(b".") >= 3 and _has_octet(raw.translate(_DOTTED)))
        or b"::" in raw
        or raw.count(b":") >= 7
    )


def _has_octet(dotted: bytes) -> bool:
    return b".0." in dotted or b".00." in dotted or b".000." in dotted


def _mask_secrets(text: str, kinds: Counter[str]) -> str:
    for shape in secret_text.SHAPES:
        if any(marker in text for marker in shape.markers):
            text = _replace_secret(text, shape, kinds)
    return text


def _replace_secret(text: str, shape: SecretShape, kinds: Counter[str]) -> str:
    def swap(match: re.Match[str]) -> str:
        if not shape.is_real(match):
            return match[0]
        return _swapped(match, shape.group, shape.kind, kinds)

    return shape.pattern.sub(swap, text)


def _replace(text: str, shape: PersonalShape, kinds: Counter[str]) -> str:
    def swap(match: re.Match[str]) -> str:
        if not shape.is_real(match):
            return match[0]
        group = "value" if "value" in shape.pattern.groupindex else 0
        return _swapped(match, group, shape.kind, kinds)

    return shape.pattern.sub(swap, text)


def _swapped(match: re.Match[str], group: str | int, kind: str, kinds: Counter[str]) -> str:
    kinds[kind] += 1
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return f"{match[0][:start]}[{kind}]{match[0][end:]}"


def _keep_json(before: str, after: str) -> str:
    """Mask inside the values where masking the text would make valid JSON invalid (a bare number)."""
    try:
        value = json.loads(before)
    except (ValueError, RecursionError):
        return after
    try:
        json.loads(after)
    except (ValueError, RecursionError):
        return json.dumps(_mask_value(value), ensure_ascii=False)
    return after


def _mask_value(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {_mask(key, Counter()): _mask_value(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask_value(item, name) for item in value]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return value
    masked = _mask(str(value), Counter())
    if masked == str(value):
        # The name may be what tells a phone number from another number.
        kinds: Counter[str] = Counter()
        _mask(f"{name}: {value}", kinds)
        return f"[{next(iter(kinds))}]" if kinds else value
    return masked
