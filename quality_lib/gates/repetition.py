"""Level 4: the same sentences again and again, in any order. Pure.

A loop repeats one unit without a gap; a model that has lost its way often comes back to a few
sentences with others between them.
"""

from __future__ import annotations

import re
from collections import Counter

from quality_lib.gates.answer_view import WORDS, AnswerView, View, are_words, words_of
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.layout import code_line_share
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "sentences_repeated",
        Outcome.FAILED,
        "Most of an answer that the limit ended is sentences that come three times or more.",
        "gates.output.repeated_share",
        "template-agent#359, TGI#902",
    ),
    Reason(
        "sentences_repeated_ended",
        Outcome.SUSPECT,
        "Most of the answer is sentences that come three times or more.",
        "gates.output.repeated_share",
        "template-agent#359",
    ),
    Reason(
        "phrases_repeated",
        Outcome.FAILED,
        "An answer that the limit ended goes round a few phrases.",
        "gates.output.repeated_phrases",
        "vllm#47087, TGI#902",
    ),
    Reason(
        "phrases_repeated_some",
        Outcome.SUSPECT,
        "Much of the answer repeats phrases that came before, or few of its words differ.",
        "gates.output.repeated_phrases",
        "vllm#47087, TGI#902",
    ),
)
_STRETCH = 48
"""Words over which variety is taken."""
_LEAST_WORDS = 20
_ORDINARY_VARIETY = 0.6
"""Share of different words above which no phrase can fill a text."""
_ENDS = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_LONG = 16
"""Characters from which a sentence counts; shorter ones rightly recur."""
_TIMES = 3


def repetition(limits: OutputLimits, view: View) -> Gate:
    """Fail answers that come back to the same sentences until the limit."""

    def look(answer: AnswerView) -> Verdict | None:
        if len(answer.body) < limits.min_characters or answer.is_structured:
            return None
        is_list = answer.is_short_lined
        if is_list and not answer.may_be_cut:
            # Rows of a finished list may be alike.
            return None
        verdict = _sentences(answer, limits) or (None if is_list else _phrases(answer, limits))
        if verdict is not None and answer.is_laid_out and not answer.may_be_cut:
            return None
        return verdict

    return output_gate("repetition", view, look, REASONS)


def _sentences(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    pieces = [
        piece for piece in answer.prose.replace("\n", ". ").split(". ") if len(piece) >= _LONG
    ]
    if len(pieces) - len(set(pieces)) < _TIMES - 1 or len(answer.body) < 6 * limits.min_characters:
        return None
    sentences = Counter(one for one in map(str.strip, _split(answer)) if len(one) >= _LONG)
    # First without the slow look at letters, which can only lower it.
    if _again(sentences) / len(answer.body) < limits.repeated_share:
        return None
    counts = Counter({one: times for one, times in sentences.items() if _is_wordy(one)})
    share = _again(counts) / len(answer.body)
    if share < limits.repeated_share or answer.wishes.repeats:
        return None
    worst, times = counts.most_common(1)[0]
    sentence = (
        f"{share:.0%} of it are repeated sentences, such as {snippet(worst)!r} ({times} times)."
    )
    evidence = {"share": round(share, 3), "example": snippet(worst), "times": times}
    if answer.may_be_cut:
        return failed("sentences_repeated", sentence, **evidence)
    return suspect("sentences_repeated_ended", sentence, **evidence)


def _split(answer: AnswerView) -> list[str]:
    prose = answer.prose
    if not answer.is_ascii or not prose.replace("\n", "").isprintable():
        return _ENDS.split(prose)
    # The same for texts without other blanks, many times faster.
    return prose.replace(". ", ".\n").replace("! ", "!\n").replace("? ", "?\n").split("\n")


def _again(counts: Counter[str]) -> int:
    """Return the characters in sentences that come again and again."""
    return sum(len(one) * times for one, times in counts.items() if times >= _TIMES)


def _phrases(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    words = answer.small_tokens
    if len(words) < _LEAST_WORDS:
        return None
    variety, at = _least_variety(words)
    if variety > _ORDINARY_VARIETY and len(set(words)) > 0.5 * len(words):
        return None
    few = variety < limits.min_variety
    if not few and not _may_be_known(answer, limits.repeated_phrases):
        return None
    if _may_repeat(answer):
        return None
    share = _known_share(WORDS.findall(answer.small))
    if share < limits.repeated_phrases and not few:
        return None
    sentence = (
        f"{share:.0%} of the words repeat a phrase; {variety:.0%} differ in the worst stretch."
    )
    evidence = {"share": round(share, 3), "variety": round(variety, 3), "word": at}
    if answer.may_be_cut and (few or share >= 1.4 * limits.repeated_phrases):
        return failed("phrases_repeated", sentence, **evidence)
    return suspect("phrases_repeated_some", sentence, **evidence)


def _least_variety(words: list[str]) -> tuple[float, int]:
    """Return the share of different words in the poorest stretch, and where that starts."""
    last = max(0, len(words) - _STRETCH)
    size = min(_STRETCH, len(words))
    starts = [*range(0, last, _STRETCH), last]
    different = [len(set(words[at : at + size])) for at in starts]
    fewest = min(different)
    return fewest / size, starts[different.index(fewest)]


def _may_be_known(answer: AnswerView, share: float) -> bool:
    """Whether such a share of the words can lie in phrases that came before: a bound, many times faster."""
    small = answer.small
    words = words_of(small)
    count = max(1, len(words))
    # Every word of such a phrase came before, too.
    if (len(words) - len(set(words))) / count < share and are_words(small):
        return False
    phrases = max(0, len(words) - 3)
    again = phrases - len(set(zip(words, words[1:], words[2:], words[3:], strict=False)))
    # Every phrase that came before covers four words at most; words here may be split a little otherwise.
    return 1.25 * 4 * again / count >= share


def _known_share(words: list[str]) -> float:
    """Return the share of words inside a phrase of four that came before."""
    seen: set[tuple[str, ...]] = set()
    again = bytearray(len(words))
    for at, phrase in enumerate(zip(words, words[1:], words[2:], words[3:], strict=False)):
        if phrase in seen:
            again[at : at + 4] = b"\1\1\1\1"
        seen.add(phrase)
    return sum(again) / max(1, len(words))


def _may_repeat(answer: AnswerView) -> bool:
    """Whether the prompt, or that it is code, makes repeated phrases right."""
    wishes = answer.wishes
    if wishes.repeats or wishes.code or wishes.word_list or wishes.dialogue or wishes.digits:
        return True
    return code_line_share(answer.prose) >= 0.4


def _is_wordy(sentence: str) -> bool:
    return sum(map(str.isalpha, sentence)) > 0.6 * len(sentence)
