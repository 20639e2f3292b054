"""Level 4: the words that an answer must hold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import output_gate, suspect, unjudged
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.text_fold import fold, found_share
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "keywords_missing",
        Outcome.SUSPECT,
        "The answer holds too few of the words that its task expects.",
        "gates.output.min_keyword_share",
    ),
    Reason("keywords_none_expected", Outcome.UNJUDGED, "The task expects no words."),
)
Expected = Callable[[Exchange], Sequence[str]]
"""The words that an answer to this request must hold; ``a|b`` wants either."""


def keywords(limits: OutputLimits, view: View, expected: Expected) -> Gate:
    """Suspect answers that hold too few of the expected words."""

    def look(answer: AnswerView) -> Verdict | None:
        wanted = tuple(expected(answer.exchange))
        share = found_share(wanted, answer.text)
        if share is None:
            return unjudged("keywords_none_expected", "No words are expected.")
        if share >= limits.min_keyword_share or answer.was_cut:
            return None
        folded = fold(answer.text)
        missing = [w for w in wanted if not any(fold(e) in folded for e in w.split("|"))]
        return suspect(
            "keywords_missing",
            f"{share:.0%} of the expected words are there.",
            share=round(share, 3),
            missing=missing[:10],
        )

    return output_gate("keywords", view, look, REASONS)
