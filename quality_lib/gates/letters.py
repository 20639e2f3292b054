"""Level 4: single letters without end, or one string of them, as from a tokenizer or an embedding table that is off. Pure."""

from __future__ import annotations

import re
from itertools import pairwise

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "letter_soup",
        Outcome.SUSPECT,
        "Most of the answer are single letters that nobody asked for.",
        "gates.output.letter_share",
        "tenstorrent/vllm#415",
    ),
    Reason(
        "string_soup",
        Outcome.SUSPECT,
        "The answer is one string of mixed letters and digits that nobody asked for.",
        source="tenstorrent/vllm#415",
    ),
)
_LEAST = 16
"""Tokens; shorter rows of letters are initials, options or a word spelled out."""
_ORDERED = 0.8
"""Share of neighbours in the order of the alphabet from which it is one."""
_LONG_STRING = 40
"""Characters: shorter ones are identifiers of things."""
_STRING = re.compile(r"[A-Za-z0-9+/=_-]+")
_KINDS = str.maketrans({
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "a"),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "A"),
    **dict.fromkeys("0123456789", "0"),
})
_MIXED = 0.45
"""Share of neighbours of another kind (small, capital, digit): 0.6 by chance, 0.25 in names that join words."""


def letters(limits: OutputLimits, view: View) -> Gate:
    """Suspect answers that are single Latin letters for the most part."""

    def look(answer: AnswerView) -> Verdict | None:
        tokens = answer.tokens
        if len(tokens) == 1 and _is_mixed(tokens[0]):
            return _string(answer)
        # A text whose tokens are letters is hardly longer than twice their number: settles nearly all.
        if len(tokens) < _LEAST or len(answer.prose.strip()) > 4 * len(tokens):
            return None
        found = [
            token.lower() for token in tokens if len(token) == 1 and "a" <= token.lower() <= "z"
        ]
        share = len(found) / len(tokens)
        if share < limits.letter_share or _is_ordered(found) or _is_wanted(answer):
            return None
        return suspect(
            "letter_soup",
            f"{share:.0%} of the words are single letters, as in {snippet(' '.join(tokens))!r}.",
            share=round(share, 3),
            letters=len(found),
        )

    return output_gate("letters", view, look, REASONS)


def _is_mixed(text: str) -> bool:
    """Whether a long string takes small letters, capitals and digits by turns as chance does."""
    if len(text) < _LONG_STRING or _STRING.fullmatch(text) is None:
        return False
    kinds = text.translate(_KINDS)
    turns = sum(first != second for first, second in pairwise(kinds))
    return set("aA0") <= set(kinds) and turns >= _MIXED * len(text)


def _string(answer: AnswerView) -> Verdict | None:
    wishes = answer.wishes
    is_shown = any(map(_is_mixed, _STRING.findall(answer.asked)))
    if is_shown or any((wishes.nonsense, wishes.code, wishes.digits, wishes.copying)):
        return None
    return suspect(
        "string_soup",
        f"Nothing but a string of {len(answer.body)} characters, {snippet(answer.body)!r}.",
        characters=len(answer.body),
    )


def _is_ordered(found: list[str]) -> bool:
    steps = [ord(second) - ord(first) for first, second in pairwise(found)]
    return steps.count(1) >= _ORDERED * len(steps)


def _is_wanted(answer: AnswerView) -> bool:
    wishes = answer.wishes
    if answer.fences or sum(len(word) == 1 for word in wishes.words) >= _LEAST // 2:
        return True
    return any((
        *(wishes.drawing, wishes.word_list, wishes.nonsense),
        *(wishes.repeats, wishes.unspaced, wishes.letters),
    ))
