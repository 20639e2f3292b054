"""Level 1, optional: the prompt is what this service is for, by its nearest example. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.input_limits import InputLimits
from quality_lib.records import Outcome, Verdict

Similarity = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""Cosine similarity of pairs of texts, each in [-1, 1]."""

_REASONS = (
    Reason("input_in_scope", Outcome.PASSED, "The prompt is near an example of what the service is for."),
    Reason(
        "input_out_of_scope",
        Outcome.SUSPECT,
        "The prompt is far from every example, or nearer to one that the service is not for.",
        "gates.input.scope_min_similarity",
    ),
    Reason("input_scope_unjudged", Outcome.UNJUDGED, "There is no text to compare with the examples."),
)  # fmt: skip
_LONGEST = 2_000
"""Characters; the embedding model reads about 256 tokens."""


def input_scope(limits: InputLimits, similarity: Similarity) -> Gate:
    """Suspect prompts outside the service's scope; it needs ``scope_examples``."""
    examples = limits.scope_examples + limits.scope_foreign

    def judge(exchange: Exchange) -> Verdict:
        text = exchange.last_asked[:_LONGEST].strip()
        if not text or not examples:
            return Verdict(Outcome.UNJUDGED, "input_scope_unjudged", "There is nothing to compare.")
        scores = similarity([(text, example) for example in examples])
        own = max(scores[: len(limits.scope_examples)])
        foreign = max(scores[len(limits.scope_examples) :], default=-1.0)
        evidence = {
            "similarity": round(own, 3),
            "foreign": round(foreign, 3),
            "limit": limits.scope_min_similarity,
        }
        if own < limits.scope_min_similarity or foreign > own:
            sentence = f"The nearest example of the scope has the similarity {own:.2f}."
            return Verdict(Outcome.SUSPECT, "input_out_of_scope", sentence, evidence)
        return Verdict(Outcome.PASSED, "input_in_scope", "The prompt is in scope.", evidence)

    return Gate("input_scope", Level.INPUT, judge, _REASONS)
