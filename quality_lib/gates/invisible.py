"""Characters that are not seen: which of them a script needs, and which are taken away. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

import regex

INVISIBLE = (
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\ufffe\uffff\U000e0000-\U000e01ef"
)
"""Inside a character class: everything that may be taken away besides control characters."""

_ANY = re.compile(f"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f{INVISIBLE}]")
_INVISIBLE = regex.compile(
    r"(?P<ansi>\x1b\[[0-9;?]*[ -/]*[@-~])"
    r"|(?P<control>[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff])"
    r"|(?P<surrogate>[\ud800-\udfff])"
    r"|(?P<bidi>[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069])"
    r"|(?P<tags>[\U000e0000-\U000e007f]+)"
    r"|(?P<selectors>[\ufe00-\ufe0f\U000e0100-\U000e01ef]+)"
    r"|(?P<joiner>[\u200c\u200d])"
    r"|(?P<space>\u200b)"
    r"|(?P<width>[\xad\u2060\ufeff\u180e])"
)
_BIDI = re.compile(r"[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_RIGHT_TO_LEFT = regex.compile(
    r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_JOINING = regex.compile(
    # Scripts whose spelling uses ZWJ and ZWNJ: Arabic and its kin, the Indic family, Mongolian, N'Ko.
    r"[\p{Arabic}\p{Syriac}\p{Hebrew}\p{Mandaic}\p{Nko}\p{Mongolian}\p{Devanagari}\p{Bengali}"
    r"\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}"
    r"\p{Thai}\p{Lao}\p{Tibetan}\p{Myanmar}\p{Khmer}\p{Balinese}\p{Javanese}\p{Meetei_Mayek}\p{Adlam}]"
)
_WORD_BREAKING = regex.compile(
    # Written without blanks between words: there U+200B marks where a line may break.
    r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Javanese}\p{Balinese}\p{Tai_Tham}"
    r"\p{Han}\p{Hiragana}\p{Katakana}]"
)
_PICTURE = regex.compile(r"[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\u20e3]")
_SELECTABLE = regex.compile(r"[^\s\p{Latin}\p{Cyrillic}\p{Greek}\p{C}\ufe00-\ufe0f]|[0-9#*]")
_BLACK_FLAG, _TAG_END = "\U0001f3f4", "\U000e007f"


def needs_direction_marks(text: str) -> bool:
    """Whether a text has direction marks and right-to-left letters that they may be for."""
    return _BIDI.search(text) is not None and _RIGHT_TO_LEFT.search(text) is not None


def drop_invisible(
    text: str, start: int, end: int, tell: Callable[[str, int], None], *, keep_direction: bool
) -> str:
    """Return ``text[start:end]`` without the invisible characters that no script there needs.

    Kept: joiners inside emoji and where the neighbouring script spells with them, variation selectors
    after a character that has variants, direction marks in a text with right-to-left letters, word
    breaks of scripts without blanks, and the tags of a flag. ``tell`` hears kind and offset of the rest.
    """
    if _ANY.search(text, start, end) is None:
        return text[start:end]
    pieces: list[str] = []
    at = start
    for match in _INVISIBLE.finditer(text, start, end):
        kind = match.lastgroup or ""
        kept = _kept(kind, match, text, keep_direction)
        if kept == match.group():
            continue
        tell(_KINDS[kind], match.start())
        pieces += (text[at : match.start()], kept)
        at = match.end()
    pieces.append(text[at:end])
    return "".join(pieces)


_KINDS = {
    "ansi": "control",
    "control": "control",
    "surrogate": "surrogate",
    "bidi": "bidi_mark",
    "tags": "hidden_tag",
    "selectors": "zero_width",
    "joiner": "zero_width",
    "space": "zero_width",
    "width": "zero_width",
}


def _kept(kind: str, match: regex.Match[str], text: str, keep_direction: bool) -> str:
    """Return what stays of a run of invisible characters."""
    found = match.group()
    before = text[match.start() - 1 : match.start()] if match.start() else ""
    after = text[match.end() : match.end() + 1]
    if kind == "surrogate":
        return "\ufffd"
    if kind == "bidi":
        return found if keep_direction else ""
    if kind == "tags":
        return found if before == _BLACK_FLAG and found.endswith(_TAG_END) else ""
    if kind == "selectors":
        return found[0] if before and _SELECTABLE.match(before) else ""
    if kind == "joiner":
        joins = _is(_JOINING, before) or _is(_JOINING, after)
        emoji = found == "\u200d" and _is(_PICTURE, before) and _is(_PICTURE, after)
        return found if joins or emoji else ""
    if kind == "space":
        return found if _is(_WORD_BREAKING, before) or _is(_WORD_BREAKING, after) else ""
    return ""


def _is(pattern: regex.Pattern[str], character: str) -> bool:
    return bool(character) and pattern.match(character) is not None
