"""Tokens that no healthy answer holds, derived from the tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib.errors import BadInput

_NAMES = re.compile(
    r"pad\b|unused|reserved|placeholder|\[mask\]|<mask>|<unk>|\[unk\]|<\|?extra_?(?:id|token)?_?\d",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    r"tool|function|call|python|think|reason|answer|channel|message|constrain|return|start|end|eo[tsm]"
    r"|im_|turn|assistant|image|audio|video|vision|img|box|quad|ref|header|observation|action"
    r"|response|result|argument|plugin|interpreter|code|json|fim|suffix|middle|prefix|citation|search|query",
    re.IGNORECASE,
)
"""Markers that models are trained to say: of tools, reasoning, turns, grounding and filling in."""
_BYTE_PIECE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


@dataclass(frozen=True)
class SuspiciousTokens:
    """What a tokenizer has that answers should not."""

    control: frozenset[int]
    """Pad, unused, reserved and other special tokens that no answer is trained to hold. This is
    what `StreamMonitor` wants."""
    broken: frozenset[int]
    """Tokens that are parts of a character and decode to U+FFFD when alone. A healthy emoji is made
    of them, so the monitor judges the text that comes out, not these."""


def suspicious_tokens(tokenizer: Any) -> SuspiciousTokens:
    """Derive the lists from a Hugging Face tokenizer, or from anything with its methods."""
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    special = {int(i) for i in getattr(tokenizer, "all_special_ids", ())}
    special |= {int(i) for i, token in added.items() if getattr(token, "special", False)}
    ends = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "eot", "eom")}
    return _split(
        vocabulary,
        special,
        {int(i) for i in ends if isinstance(i, int)},
        getattr(tokenizer, "pad_token_id", None),
    )


def suspicious_tokens_of(folder: Path) -> SuspiciousTokens:
    """Derive the lists from the ``tokenizer.json`` of a model folder.

    Raises:
        BadInput: there is no such file, or it is none.
    """
    path = folder / "tokenizer.json" if folder.is_dir() else folder
    try:
        data = json.loads(path.read_bytes())
        vocabulary = _vocabulary(data["model"])
        added = {int(token["id"]): token for token in data.get("added_tokens") or ()}
    except FileNotFoundError:
        raise BadInput("there is no tokenizer file", file=path) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"cannot be read as a tokenizer: {error!r}", file=path) from error
    vocabulary |= {token["content"]: i for i, token in added.items()}
    named = _named_tokens(path.parent)
    special = {i for i, token in added.items() if token.get("special")}
    ends = {vocabulary[n] for k in ("bos_token", "eos_token") if (n := named.get(k)) in vocabulary}
    return _split(vocabulary, special, ends, vocabulary.get(named.get("pad_token", "")))


def _split(
    vocabulary: Mapping[str, int], special: set[int], ends: set[int], pad: int | None
) -> SuspiciousTokens:
    control = set()
    for text, token in vocabulary.items():
        is_marker = text[:1] in {"<", "["} and text[-1:] in {">", "]"}
        if token in ends:
            continue
        if (is_marker and _NAMES.search(text)) or (token in special and not _SPOKEN.search(text)):
            control.add(int(token))
    # Some models pad with their end token; ends stay allowed.
    if isinstance(pad, int) and pad not in ends:
        control.add(pad)
    return SuspiciousTokens(frozenset(control), frozenset(_broken(vocabulary) - control - ends))


def _broken(vocabulary: Mapping[str, int]) -> set[int]:
    """Return the pieces that are no whole characters."""
    to_byte = _byte_of_sign()
    # Byte-level vocabularies write every byte as one sign of a fixed alphabet.
    is_byte_level = sum(sign in vocabulary for sign in to_byte) > 200
    broken = set()
    for text, token in vocabulary.items():
        if _BYTE_PIECE.fullmatch(text):
            if int(text[3:5], 16) >= 0x80:
                broken.add(int(token))
        elif is_byte_level and all(sign in to_byte for sign in text):
            try:
                bytes(to_byte[sign] for sign in text).decode("utf-8")
            except UnicodeDecodeError:
                broken.add(int(token))
    return broken


def _byte_of_sign() -> dict[str, int]:
    """Return GPT-2's alphabet: printable bytes stand for themselves, the others for U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    signs = {chr(byte): byte for byte in printable}
    others: Iterable[int] = (byte for byte in range(256) if byte not in set(printable))
    signs |= {chr(0x100 + n): byte for n, byte in enumerate(others)}
    return signs


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        # Unigram models list [piece, score] in the order of their ids.
        return {piece[0]: i for i, piece in enumerate(vocabulary)}
    return {str(text): int(i) for text, i in vocabulary.items()}


def _named_tokens(folder: Path) -> dict[str, str]:
    named: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        try:
            data = json.loads((folder / file).read_bytes())
        except (OSError, ValueError):
            continue
        for key in ("bos_token", "eos_token", "pad_token"):
            value = data.get(key) if isinstance(data, dict) else None
            text = value.get("content") if isinstance(value, dict) else value
            if isinstance(text, str):
                named[key] = text
    return named
