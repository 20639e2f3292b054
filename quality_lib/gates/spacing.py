"""Level 4: blanks between words that were lost or moved. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.glued_words import GLUED_WORDS
from quality_lib.gates.layout import code_line_share
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.word_signs import GLUED_PAIR, LONG, LONG_LETTERS
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "spaces_lost",
        Outcome.FAILED,
        "The words of whole sentences are glued together.",
        "gates.output.glued_characters",
        "vllm#40725, llama.cpp#6920",
    ),
    Reason(
        "word_too_long",
        Outcome.SUSPECT,
        "One word has more letters than any word of a language, and the prompt does not hold it.",
        source="llama.cpp#13310",
    ),
    Reason(
        "words_glued",
        Outcome.FAILED,
        "Again and again small words are glued to each other.",
        "gates.output.glued_words",
        "vllm#40725",
    ),
    Reason(
        "words_glued_some",
        Outcome.SUSPECT,
        "Small words are glued to each other in more than one place.",
        "gates.output.glued_words",
        "vllm#40725",
    ),
)
_ALSO_REAL = frozenset({"dela"})
"""Glued in Spanish and French, a name elsewhere: counts beside another one alone."""
_LONGEST_WORD = 48
"""Letters; longer compounds than this are asked for by name."""
_LONG_VARIETY = 6
_BEHIND_LATIN = "\u0370"
_VARIETY = 9
"""Different letters that glued sentences hold at the least; codes over small alphabets hold fewer."""


def spacing(limits: OutputLimits, view: View) -> Gate:
    """Fail sentences whose words have run together."""

    def look(answer: AnswerView) -> Verdict | None:
        return _lost(answer, limits) or _too_long(answer) or _glued(answer, limits)

    return output_gate("spacing", view, look, REASONS)


def _lost(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    if LONG not in answer.signs.places:
        return None
    long = [t for t in answer.tokens if len(t) >= LONG_LETTERS and _is_sentence(t)]
    characters = sum(map(len, long))
    if characters < limits.glued_characters or characters < 0.3 * len(answer.body):
        return None
    wishes = answer.wishes
    if wishes.nonsense or wishes.digits or code_line_share(answer.plain) >= 0.5:
        return None
    # A long name that was asked for, or letters that were asked for without blanks.
    if wishes.unspaced or (wishes.word_list and [t for t in map(_trimmed, long) if _is_name(t)]):
        return None
    return failed(
        "spaces_lost",
        f"{characters} letters without a blank, such as {snippet(long[0])!r}.",
        characters=characters,
        start=answer.prose.find(long[0]),
    )


def _too_long(answer: AnswerView) -> Verdict | None:
    if LONG not in answer.signs.places or max(map(len, answer.tokens)) < _LONGEST_WORD:
        return None
    tokens = answer.small_tokens
    wishes = answer.wishes
    if wishes.word_list or wishes.nonsense or wishes.digits or wishes.repeats:
        return None
    for token in map(_trimmed, tokens):
        is_word = len(token) >= _LONGEST_WORD and token.isalpha() and token < _BEHIND_LATIN
        if is_word and len(set(token)) >= _LONG_VARIETY and token not in wishes.small:
            return suspect(
                "word_too_long", f"{snippet(token)!r} has {len(token)} letters.", letters=len(token)
            )
    return None


def _trimmed(token: str) -> str:
    return token.strip(".,;:!?\"'()*_„“”")


def _is_name(token: str) -> bool:
    return token.isalpha() and token.istitle()


def _is_sentence(token: str) -> bool:
    """Whether it is letters of an alphabet, nearly all small, with the variety of language."""
    small = sum(map(str.islower, token))
    return small >= 0.85 * len(token) and len(set(token)) >= _VARIETY


def _glued(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    if GLUED_PAIR not in answer.signs.places:
        return None
    lowered = {token.strip(".,;:!?") for token in answer.small_tokens}
    found = lowered & GLUED_WORDS
    if len(found) + len(lowered & _ALSO_REAL) < limits.glued_words or answer.wishes.nonsense:
        return None
    words = sorted(found | (lowered & _ALSO_REAL))
    sentence = f"Glued: {', '.join(words[:6])}."
    if len(words) >= 2 * limits.glued_words:
        return failed("words_glued", sentence, words=words[:12])
    return suspect("words_glued_some", sentence, words=words[:12])
