"""Level 4: characters that were lost or decoded wrongly. Pure."""

from __future__ import annotations

import re

import ftfy
from ftfy.badness import BADNESS_RE

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "replacement_marks",
        Outcome.FAILED,
        "Replacement marks (U+FFFD) stand inside a text: bytes were lost while decoding.",
        "gates.output.replacement_marks",
        "vllm-mlx#109, sglang#34852",
    ),
    Reason(
        "replacement_mark_at_end",
        Outcome.SUSPECT,
        "A text that ended by itself ends in half a character.",
        source="mlc-llm#1142",
    ),
    Reason(
        "replacement_mark_alone",
        Outcome.SUSPECT,
        "A replacement mark stands alone between words.",
        "gates.output.replacement_marks",
        "sglang#34852",
    ),
    Reason(
        "mojibake",
        Outcome.FAILED,
        "Several pieces of the text were decoded with the wrong character set.",
        source="vllm#13828",
    ),
    Reason(
        "mojibake_trace",
        Outcome.SUSPECT,
        "A piece of the text was decoded with the wrong character set.",
        source="vllm#13828",
    ),
    Reason(
        "control_characters",
        Outcome.FAILED,
        "Control characters, lone surrogates or unassigned code points stand in the text.",
        source="vllm#57661",
    ),
    Reason(
        "stacked_marks",
        Outcome.SUSPECT,
        "Letters carry towers of accents that no language writes.",
        source="Unicode Technical Standard 39, section 5.4",
    ),
)
_READ = 20_000
"""Characters of a prompt that are searched for the same damage."""
_MARK = "\ufffd"
_PAIR = re.compile(r"[\u0080-\u02ff\u2013-\u2122\u2500-\u25a0]{2}")
_SINGLE, _SMALL = "\x80-\x9fÂÃØÙŒœ", "ßà-öø-ÿăąāćčďđęěēėğģįīķĺľłļœŕśşšťüźżžґ"
_MAY_BE_BAD = re.compile(
    rf"[{_SINGLE}]|[^\x00-\x7f{_SMALL}][^\x00-\x7f]|[^\x00-\x7f][^\x00-\x7f{_SMALL}]"
)
"""What the pattern of ftfy cannot match without: it takes the time of all gates together."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]|\x1b(?!\[)"
)
_TOWER = re.compile(r"[A-Za-z\u00c0-\u024f\u0400-\u04ff][\u0300-\u036f]{3,}")
_TOWERS = 3


def damaged_text(limits: OutputLimits, view: View) -> Gate:
    """Fail lost and wrongly decoded characters, unless they are the subject."""

    def look(answer: AnswerView) -> Verdict | None:
        text = answer.text
        if answer.is_ascii:
            return _control(answer)
        if _MARK in text:
            verdict = _replacement(answer, limits)
            if verdict is not None:
                return verdict
        return _control(answer) or _mojibake(answer) or _stacked(answer)

    return output_gate("damaged_text", view, look, REASONS)


def _stacked(answer: AnswerView) -> Verdict | None:
    found = _TOWER.findall(answer.plain)
    # One may be an example; Greek and Vietnamese pile up two on their letters when decomposed.
    if len(found) < _TOWERS or answer.wishes.encodings or answer.wishes.nonsense:
        return None
    if _TOWER.search(answer.asked):
        return None
    return suspect(
        "stacked_marks",
        f"{len(found)} letters carry three accents or more, as {found[0]!r}.",
        count=len(found),
        start=answer.text.find(found[0]),
    )


def _control(answer: AnswerView) -> Verdict | None:
    if answer.text.replace("\n", "").isprintable():
        return None
    found = _CONTROL.findall(answer.text)
    if not found or answer.wishes.encodings:
        return None
    return failed(
        "control_characters",
        f"{len(found)} character(s) such as U+{ord(found[0][0]):04X}.",
        count=len(found),
        start=answer.text.index(found[0]),
    )


def _replacement(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    text = answer.text
    body = text.rstrip(_MARK)
    inside = body.count(_MARK)
    at_end = len(text) - len(body)
    # A piece of a character gives at most three marks; more is a run of lost bytes.
    if not inside and at_end <= 3 and answer.was_cut:
        return None
    if answer.wishes.encodings or re.search(r"replacement character|U\+FFFD", text, re.IGNORECASE):
        return None
    first = text.index(_MARK)
    if not inside and at_end <= 3:
        return suspect("replacement_mark_at_end", "It ends in half a character.", start=first)
    count = inside + at_end
    if count == 1 and not _touches_letter(text, first):
        return suspect("replacement_mark_alone", "U+FFFD stands between words.", start=first)
    if count < limits.replacement_marks:
        return None
    return failed(
        "replacement_marks", f"{count} replacement marks in the text.", count=count, start=first
    )


def _touches_letter(text: str, at: int) -> bool:
    return text[max(0, at - 1) : at].isalnum() or text[at + 1 : at + 2].isalnum()


def _mojibake(answer: AnswerView) -> Verdict | None:
    plain = answer.plain
    # Two such characters in a row are needed; the full pattern is slow on other scripts.
    if _PAIR.search(plain) is None or _MAY_BE_BAD.search(plain) is None:
        return None
    if BADNESS_RE.search(plain) is None or answer.wishes.encodings:
        return None
    if BADNESS_RE.search(answer.asked[-_READ:]):
        return None
    mended = ftfy.fix_encoding(plain)
    if mended == plain:
        found = len(BADNESS_RE.findall(plain))
        if found < 3:
            return None
    else:
        found = len(BADNESS_RE.findall(plain))
    match = BADNESS_RE.search(plain)
    start = match.start() if match else 0
    evidence = {"count": found, "start": start, "mended": snippet(mended[start : start + 60])}
    sentence = f"{found} piece(s) decoded wrongly, from offset {start} on."
    if found >= 2:
        return failed("mojibake", sentence, **evidence)
    return suspect("mojibake_trace", sentence, **evidence)
