"""Level 4: single letters without end, as from a tokenizer or an embedding table that is off. Pure."""

from __future__ import annotations

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
)
_LEAST = 16
"""Tokens; shorter rows of letters are initials, options or a word spelled out."""
_ORDERED = 0.8
"""Share of neighbours in the order of the alphabet from which it is one."""


def letters(limits: OutputLimits, view: View) -> Gate:
    """Suspect answers that are single Latin letters for the most part."""

    def look(answer: AnswerView) -> Verdict | None:
        tokens = answer.tokens
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
