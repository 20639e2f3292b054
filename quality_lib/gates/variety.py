"""Level 4: a text that never says a word twice. Pure.

Penalties on repetition that are far too strong leave no other way: small words run out, and the text
rambles from subject to subject in good grammar. English prose says "the" or "of" again within a line,
so a long stretch without any word twice is written by nobody. Other languages, with more endings and
fewer small words, are not judged.
"""

from __future__ import annotations

from quality_lib.gates.answer_view import AnswerView, View, words_of
from quality_lib.gates.function_words import OF_LANGUAGE
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "words_never_twice",
        Outcome.FAILED,
        "In a long stretch of English prose hardly any word comes twice.",
        "gates.output.max_variety",
        "vllm#44988",
    ),
    Reason(
        "words_hardly_twice",
        Outcome.SUSPECT,
        "In a stretch of English prose hardly any word comes twice.",
        "gates.output.max_variety",
        "vllm#44988",
    ),
)
_ENGLISH = OF_LANGUAGE["en"]
_SHORT, _LONG = 50, 80
"""Words of a stretch that make a text suspect, and bad. In 95 healthy answers the largest share of
different words was 0.90 of 50 and 0.81 of 80; under a repetition penalty of 2 it was 0.98 and 0.95."""
_LONG_MARGIN = 0.03
"""A longer stretch repeats more, so less variety is enough there."""
_STEP = 8
_READ = 1_200
_PROSE = 0.2
"""Share of English function words that makes prose, and no list."""


def variety(limits: OutputLimits, view: View) -> Gate:
    """Suspect or fail English prose in which words do not come back."""

    def look(answer: AnswerView) -> Verdict | None:
        tokens = answer.tokens
        if len(tokens) < _SHORT:
            return None
        # As written there are more different words than there are in truth, so this test misses nothing.
        if not _is_varied(tokens[:_SHORT]) and not _is_varied(tokens[-_SHORT:]):
            return None
        return _judge(words_of(answer.small)[:_READ], answer, limits)

    return output_gate("variety", view, look, REASONS)


def _is_varied(words: list[str]) -> bool:
    """The cheap test: healthy prose of this length stays below."""
    return len(set(words)) > 0.9 * len(words)


def _judge(words: list[str], answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    wishes = answer.wishes
    if wishes.nonsense or wishes.languages:
        return None
    for size, least, say, reason in (
        (_LONG, limits.max_variety - _LONG_MARGIN, failed, "words_never_twice"),
        (_SHORT, limits.max_variety, suspect, "words_hardly_twice"),
    ):
        share = _most_varied(words, size)
        if share >= least:
            return say(
                reason,
                f"{share:.0%} of {size} words in a row are different ones.",
                share=round(share, 3),
                words=size,
            )
    return None


def _most_varied(words: list[str], size: int) -> float:
    """Return the largest share of different words in a stretch of prose; 0 without one."""
    best = 0.0
    for start in range(0, len(words) - size + 1, _STEP):
        stretch = words[start : start + size]
        share = len(set(stretch)) / size
        if share > best and sum(word in _ENGLISH for word in stretch) >= _PROSE * size:
            best = share
    return best
