"""Level 4: tokens that come twice in a row. Pure.

A corrupt context doubles tokens with high confidence, so entropy is blind to it; the text is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from operator import eq

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.text_fold import listed
from quality_lib.gates.word_kind import TWICE
from quality_lib.gates.word_signs import equal_neighbours
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "doubled_words",
        Outcome.FAILED,
        "Word after word comes twice.",
        "gates.output.stutter_share",
        "llm-scaler#721, vllm#40725",
    ),
    Reason(
        "doubled_words_some",
        Outcome.SUSPECT,
        "Unusually many words come twice.",
        "gates.output.stutter_share",
        "llm-scaler#721, vllm#40725",
    ),
    Reason(
        "doubled_letters",
        Outcome.FAILED,
        "Letter after letter comes twice.",
        "gates.output.stutter_share",
        "llm-scaler#721",
    ),
    Reason(
        "glued_doubles",
        Outcome.FAILED,
        "Words are glued to a copy of themselves.",
        "gates.output.stutter_share",
        "llm-scaler#721, vllm#40725",
    ),
    Reason(
        "doubled_tokens",
        Outcome.FAILED,
        "Token after token comes twice, by their ids.",
        "gates.output.stutter_share",
        "llm-scaler#721",
    ),
)
WINDOW = 24
"""Words over which the share is taken."""
_PROBE = 40
_LEAST = 4
"""Doubles below this number are chance."""
_OVERLAPS = 3
"""Different pairs of a word and one that starts with it that are hardly chance in a short text."""
_GROWN = 2
_SHORT_STARTS = frozenset(
    listed("in to the he be so no on of an as is it al un de la le di da en el")
)
_CLOSE = 8
"""Words between two doubles that are hardly chance; a comma between the two words is no double."""
_EDGES = ".,;:!?\"'()*_"
_DOUBLED_TOKEN_SHARE = 0.4
_HEALTHY_PAIRS = frozenset(
    listed(
        "had that very so really no yes bye ha na la ho he da boo knock hear there now well my oh more many far out on is "
        "nous vous sehr ja muy si sí いい そう 很 哈 chop choo blah wow go tut hip yeah hey please never come again"
    )
)


def stutter(limits: OutputLimits, view: View) -> Gate:
    """Fail texts whose words, letters or tokens come in pairs."""

    def look(answer: AnswerView) -> Verdict | None:
        verdict = _tokens(answer)
        if verdict is not None or len(answer.text) < limits.min_characters // 2:
            return verdict
        return _words(answer, limits) or _glued(answer, limits) or _letters(answer, limits)

    return output_gate("stutter", view, look, REASONS)


def _tokens(answer: AnswerView) -> Verdict | None:
    ids = answer.answer.token_ids
    if ids is None or len(ids) < 2 * WINDOW:
        return None
    pairs = sum(map(eq, ids, islice(ids, 1, None)))
    # More than half of all neighbours equal is one token for ever: a loop, told by its own gate.
    share = pairs / (len(ids) - 1)
    if not _DOUBLED_TOKEN_SHARE <= share <= 0.6 or answer.wishes.repeats:
        return None
    return failed(
        "doubled_tokens", f"{share:.0%} of the tokens equal the one before.", share=round(share, 3)
    )


def _words(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    starts = _starts(answer)
    if len(starts) >= _OVERLAPS:
        verdict = _overlaps(answer, starts)
        if verdict is not None:
            return verdict
    if not any(first == second and first.isalpha() for first, second in starts):
        return None
    words = [word.lstrip(_EDGES) for word in answer.small_tokens]
    marks = [_is_double(a, b.rstrip(_EDGES)) for a, b in pairwise(words)]
    different = len({word for word, is_double in zip(words, marks, strict=False) if is_double})
    # The same word again and again is a loop, told by its own gate.
    if different < 2 or answer.wishes.repeats:
        return None
    worst, at = _worst_window(marks)
    if different < 3 or sum(marks) < _LEAST:
        return _close_pairs(words, marks)
    evidence = {"share": round(worst, 3), "word": at, "doubles": sum(marks)}
    sentence = f"{worst:.0%} of the words from word {at} on equal the one before."
    if worst >= limits.stutter_share:
        return failed("doubled_words", sentence, **evidence)
    if worst >= limits.stutter_share / 2 and sum(marks) >= 6:
        return suspect("doubled_words_some", sentence, **evidence)
    return None


def _starts(answer: AnswerView) -> set[tuple[str, str]]:
    """Return pairs of words of which the second starts with the first; of single letters, only equal ones."""
    tokens = answer.tokens
    found = set()
    for at in equal_neighbours(answer.signs.starts):
        first, second = tokens[at].lower(), tokens[at + 1].lower()
        if second.startswith(first):
            found.add((first, second))
    return found


def _overlaps(answer: AnswerView, starts: set[tuple[str, str]]) -> Verdict | None:
    """Find words that come again with a piece of the next stuck to them: ``Ro Romama``, ``Italia Italiaè``."""
    found = {
        (first, second)
        for first, second in starts
        if len(first) > 1 and first.isalpha() and first not in _SHORT_STARTS
    }
    grown = sum(first != second.rstrip(_EDGES) for first, second in found)
    wishes = answer.wishes
    if grown < _GROWN or len(found) < _OVERLAPS or len(found) < 0.05 * len(answer.tokens):
        return None
    if wishes.repeats or wishes.word_list or wishes.code or wishes.languages:
        return None
    first, second = min(found)
    return suspect(
        "doubled_words_some",
        f"{len(found)} words start as the word before, such as {first!r} and {second!r}.",
        count=len(found),
    )


def _close_pairs(words: Sequence[str], marks: Sequence[bool]) -> Verdict | None:
    """Find two different doubles within a few words, as where an answer begins to break."""
    places = [at for at, is_double in enumerate(marks) if is_double]
    for first, second in pairwise(places):
        if second - first <= _CLOSE and words[first] != words[second]:
            return suspect(
                "doubled_words_some",
                f"{words[first]!r} and {words[second]!r} come twice within a few words.",
                word=first,
                doubles=len(places),
            )
    return None


def _is_double(first: str, second: str) -> bool:
    return first == second and len(first) > 1 and first.isalpha() and first not in _HEALTHY_PAIRS


def _worst_window(marks: Sequence[bool]) -> tuple[float, int]:
    if len(marks) <= WINDOW:
        return sum(marks) / max(1, len(marks)), 0
    shares = [
        (sum(marks[at : at + WINDOW]) / WINDOW, -at) for at in range(0, len(marks) - WINDOW + 1, 6)
    ]
    share, at = max(shares)
    return share, -at


def _glued(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    kinds = answer.kinds
    if kinds.count(TWICE) + kinds.count(TWICE.upper()) < _LEAST or answer.wishes.repeats:
        return None
    found = [
        token for token, kind in zip(answer.tokens, kinds, strict=True) if kind.lower() == TWICE
    ]
    if len(set(found)) < _LEAST - 1:
        return None
    share = len(found) / max(1, len(answer.tokens))
    if share < limits.stutter_share / 2:
        return None
    return failed(
        "glued_doubles",
        f"{len(found)} words such as {found[0]!r} hold themselves twice.",
        count=len(found),
        share=round(share, 3),
    )


def _letters(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    # Every second letter equal to the one before gives a share of one half; one end is enough to see it.
    least = limits.stutter_share * _PROBE
    if _doubles(answer.text[:_PROBE]) < least and _doubles(answer.text[-_PROBE:]) < least:
        return None
    letters = [c for c in answer.prose if c.isalpha()]
    if len(letters) < limits.min_characters or answer.wishes.repeats or answer.wishes.drawing:
        return None
    pairs = sum(map(eq, letters[::2], letters[1::2])) / max(1, len(letters) // 2)
    shifted = sum(map(eq, letters[1::2], letters[2::2])) / max(1, len(letters) // 2)
    if max(pairs, shifted) < 0.8 or len(set(letters)) < 6:
        return None
    return failed(
        "doubled_letters", "Nearly every letter comes twice.", share=round(max(pairs, shifted), 3)
    )


def _doubles(piece: str) -> int:
    """Count the letters and marks that equal the one before, blanks left out."""
    signs = "".join(piece.split())
    return sum(map(eq, signs, signs[1:]))
