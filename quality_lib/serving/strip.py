"""Taking out of an answer what only the guard asked for, byte for byte.

vLLM writes a field that was not asked for as ``null`` and its JSON without blanks. Every value is
copied as the bytes it came in; only the named ones are replaced, so the rest stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

_NULL = msgspec.Raw(b"null")

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_objects = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Extras:
    """What the guard asked for and the client did not."""

    choice_fields: frozenset[str] = frozenset()
    """Fields of a choice that become ``null`` again."""
    top_fields: frozenset[str] = frozenset()
    """Fields beside ``choices`` that become ``null`` again."""
    chunk_usage: bool = False
    """Whether every chunk of a stream carries a usage that is to vanish."""
    silent_chunks: bool = False
    """Whether chunks may come that say nothing but what was extra; they are left out."""

    def __bool__(self) -> bool:
        return bool(self.choice_fields or self.top_fields or self.chunk_usage)


def strip_body(body: bytes, extras: Extras) -> bytes:
    """Return a whole answer without the extras.

    Raises:
        msgspec.DecodeError: the body is no JSON of an answer.
    """
    top = _object(body)
    _clean_top(top, extras)
    return _encode({**top, "choices": _clean_choices(top, extras)}) if "choices" in top else body


def strip_chunk(data: bytes, extras: Extras) -> bytes | None:
    """Return a chunk's data without the extras, or ``None`` when without them it never came.

    Raises:
        msgspec.DecodeError: the data is no JSON of a chunk.
    """
    top = _object(data)
    if "choices" not in top:
        return data
    choices = _clean_choices(top, extras)
    if extras.silent_chunks and len(choices) == 1 and _is_silent(choices[0]):
        return None
    # The last chunk of a stream that was asked for its usage has no choices and keeps it.
    if extras.chunk_usage and choices:
        top.pop("usage", None)
    _clean_top(top, extras)
    return _encode({**top, "choices": choices})


def _clean_top(top: dict[str, msgspec.Raw], extras: Extras) -> None:
    for name in extras.top_fields & top.keys():
        top[name] = _NULL


def _clean_choices(top: dict[str, msgspec.Raw], extras: Extras) -> list[dict[str, msgspec.Raw]]:
    choices = _objects(top["choices"])
    for choice in choices:
        for name in extras.choice_fields & choice.keys():
            choice[name] = _NULL
    return choices


def _is_silent(choice: dict[str, msgspec.Raw]) -> bool:
    """Tell a chunk that vLLM sends only to carry the tokens of a piece its parsers held back."""
    delta = choice.get("delta")
    if delta is None or bytes(delta) != b"{}":
        return False
    return bytes(choice.get("finish_reason", _NULL)) == b"null"
