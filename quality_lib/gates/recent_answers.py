"""Level 4: likeness with recent answers to the same prompt and parameters. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from quality_lib.gates.answer_view import WORDS, AnswerView, View
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.function_words import FUNCTION_WORDS
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import output_gate, suspect, unjudged
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict

WORD_REASONS = (
    Reason(
        "unlike_recent_words",
        Outcome.SUSPECT,
        "The answer shares hardly a word with any recent answer to the same request.",
        "gates.output.min_word_overlap",
        "LMCache#4385, tenstorrent/vllm#415",
    ),
    Reason(
        "recent_words_unknown",
        Outcome.UNJUDGED,
        "Too few recent answers to the same request are known.",
    ),
)
MEANING_REASONS = (
    Reason(
        "unlike_recent_meaning",
        Outcome.SUSPECT,
        "The answer means something else than recent answers to the same request.",
        "gates.output.min_similarity",
        "LMCache#4385, tenstorrent/vllm#415",
    ),
    Reason(
        "recent_meaning_unknown",
        Outcome.UNJUDGED,
        "Too few recent answers to the same request are known.",
    ),
)
LEAST_RECENT = 2
_LEAST_WORDS = 8
Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Gives one vector per text, in order."""


def recent_words(limits: OutputLimits, view: View) -> Gate:
    """Suspect answers whose words differ from all recent ones; model-free."""
    none_known = unjudged("recent_words_unknown", "0 recent answers are known.")

    def look(answer: AnswerView) -> Verdict | None:
        if not answer.exchange.recent_texts:
            return none_known
        recent = [text for text in answer.exchange.recent_texts if text.strip()]
        if len(recent) < LEAST_RECENT:
            return unjudged("recent_words_unknown", f"{len(recent)} recent answers are known.")
        own = _words(answer.text)
        others = [words for words in map(_words, recent) if len(words) >= _LEAST_WORDS]
        if len(own) < _LEAST_WORDS or len(others) < LEAST_RECENT:
            return None
        best = max(jaccard(own, words) for words in others)
        # Where recent answers differ as much among themselves, being different means nothing.
        usual = min(max(jaccard(a, b) for b in others if b is not a) for a in others)
        if best >= limits.min_word_overlap or usual < 2 * limits.min_word_overlap:
            return None
        return suspect(
            "unlike_recent_words",
            f"At most {best:.0%} of the words are shared; recent answers share {usual:.0%}.",
            overlap=round(best, 3),
            usual=round(usual, 3),
            bound="constant",
        )

    return output_gate("recent_words", view, look, WORD_REASONS)


def recent_meaning(limits: OutputLimits, bounds: LearnedBounds, view: View, embed: Embed) -> Gate:
    """Suspect answers whose meaning lies outside the learned band of likeness."""
    learned = bounds.similarity
    band = learned or Range(limits.min_similarity, None)

    def look(answer: AnswerView) -> Verdict | None:
        recent = [text for text in answer.exchange.recent_texts if text.strip()]
        if len(recent) < LEAST_RECENT or not answer.text.strip():
            return unjudged("recent_meaning_unknown", f"{len(recent)} recent answers are known.")
        own, *others = embed([answer.text, *recent])
        mean = sum(cosine(own, other) for other in others) / len(others)
        if band.low is None or mean >= band.low:
            return None
        return suspect(
            "unlike_recent_meaning",
            f"Mean similarity {mean:.2f} with {len(others)} recent answers, at least {band.low:.2f} known.",
            similarity=round(mean, 4),
            low=band.low,
            bound="learned" if learned else "constant",
        )

    return output_gate("recent_meaning", view, look, MEANING_REASONS)


def _words(text: str) -> frozenset[str]:
    """Take the words that carry meaning: small words are in every answer."""
    return frozenset(WORDS.findall(text.casefold())) - FUNCTION_WORDS


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of words in both among the words in either; 1 for two empty sets."""
    either = len(first | second)
    return len(first & second) / either if either else 1.0


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of two vectors; 0 when one is all zeros."""
    product = sum(a * b for a, b in zip(first, second, strict=True))
    size = math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))
    return product / size if size else 0.0
