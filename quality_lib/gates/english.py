"""Whether a text is plain English: what a small reference model knows best. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import AnswerView, words_of
from quality_lib.gates.function_words import OF_LANGUAGE
from quality_lib.gates.text_fold import listed

_ENGLISH = OF_LANGUAGE["en"]
_PROSE = 0.25
"""Share of English function words from which a text is English prose."""
_ASKED = 0.15
"""The same of a prompt, with the verb of a request: requests are terse."""
_ASKING = frozenset(
    listed(
        "compare define describe explain give list name recommend show suggest summarise summarize tell write"
    )
)
_EDGES = ".,;:!?\"'()*"
_FOREIGN, _FOREIGN_SHARE = "\u024f", 0.1
"""The last letter of Latin scripts, and the share of characters beyond it that a prompt may hold."""


def is_english_prose(answer: AnswerView) -> bool:
    """Whether an answer is running English text, and no other kind was asked for."""
    wishes = answer.wishes
    if any((wishes.drawing, wishes.languages, wishes.markers, wishes.encodings, wishes.reasoning)):
        return False
    if answer.is_structured:
        return False
    words = [token.strip(_EDGES) for token in answer.small_tokens]
    return sum(word in _ENGLISH for word in words) >= _PROSE * max(1, len(words))


def is_english_prompt(text: str) -> bool:
    """Whether a prompt is English rather than any other language; False when nothing tells."""
    if sum(character > _FOREIGN for character in text) > _FOREIGN_SHARE * len(text):
        return False
    words = words_of(text.lower())
    if not words:
        return False
    shares = {code: _share(words, known) for code, known in OF_LANGUAGE.items()}
    english = shares["en"] + (words[0] in _ASKING) / len(words)
    return english >= max(_ASKED, *shares.values())


def _share(words: list[str], known: frozenset[str]) -> float:
    return sum(map(known.__contains__, words)) / len(words)
