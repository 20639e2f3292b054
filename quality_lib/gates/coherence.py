"""Level 4: how likely the text is to a reference language model, window by window. Pure.

Two measures of the same reading. Perplexity tells nonsense of any kind, but is high as well where a
small model could not know what comes: names, numbers, other languages. The *excess* takes off the
doubt that the model itself had at each token: what is left is surprise that nothing explains.

Dense prose that people wrote is improbable to a small model, so the constants are wide; a bound learned
from a service's own answers is many times closer. Of a text that holds words no language writes a
smaller perplexity is enough: two witnesses say the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.english import is_english_prose
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect, unjudged
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.perplexity import windowed_means, windowed_perplexities
from quality_lib.gates.reading import Reading, Readings
from quality_lib.gates.word_kind import GLUED, NUMBER, ODD
from quality_lib.records import Outcome, Verdict

_REPORTS = "OpenAI status of February 2024, TensorRT-LLM#11125"
REASONS = (
    Reason(
        "perplexity_high",
        Outcome.SUSPECT,
        "A window of the answer is improbable to the reference model.",
        "gates.output.max_perplexity",
        _REPORTS,
    ),
    Reason(
        "perplexity_very_high",
        Outcome.FAILED,
        "A window of the answer is nonsense to the reference model.",
        "gates.output.max_perplexity",
        _REPORTS,
    ),
    Reason(
        "excess_high",
        Outcome.SUSPECT,
        "A window surprises the reference model far more than its own doubt explains.",
        "gates.output.max_excess",
        _REPORTS,
    ),
    Reason(
        "odd_and_improbable",
        Outcome.SUSPECT,
        "The answer holds words that no language writes, and is improbable to the reference model.",
        "gates.output.max_perplexity_odd",
        _REPORTS,
    ),
    Reason("perplexity_unknown", Outcome.UNJUDGED, "The reference model did not read the answer."),
)
_VERY = 10.0
"""Times the bound from which a window is nonsense rather than unusual."""
_FEW = 16
"""Tokens below which a rare name decides the mean: judged in English alone, and only when far out."""
_RARE, _LISTED = 3, 5
"""Times the bound: of few tokens, and of lists of words, where nothing tells the next one."""
_ODD_SHARE, _NUMBER_SHARE, _ODD_LEAST = 0.12, 0.3, 6
"""Shares of odd words and of numbers, in so many words at the least, that make a second witness."""


@dataclass(frozen=True)
class _Bounds:
    perplexity: float
    odd: float
    kind: str


def coherence(limits: OutputLimits, bounds: LearnedBounds, view: View, readings: Readings) -> Gate:
    """Suspect or fail answers with a window that a reference model finds improbable."""
    unknown = unjudged("perplexity_unknown", "The reference model did not read it.")

    def look(answer: AnswerView) -> Verdict | None:
        reading = readings(answer.exchange)
        if reading is None:
            return unknown
        worst = worst_perplexity(reading, bounds.window)
        if worst is None:
            return unknown
        if answer.wishes.nonsense:
            return None  # ciphers, codes and passwords are as improbable as they should be
        tokens = len(reading.logprobs)
        known = _bounds(answer, tokens, limits, bounds)
        said = _perplexity(worst, known)
        if said or tokens < _FEW:
            return said
        return _excess(reading, limits, bounds.window) or _two(worst, answer, known)

    return output_gate("coherence", view, look, REASONS)


def worst_perplexity(reading: Reading, window: int) -> float | None:
    """Return the perplexity of the worst window; None of a text too short to say."""
    return max(windowed_perplexities(reading.logprobs, window), default=None)


def worst_excess(reading: Reading, window: int) -> float:
    """Return the mean surprise beyond the model's own doubt in the worst window, nats a token."""
    surprises = [
        -logprob - entropy
        for logprob, entropy in zip(reading.logprobs, reading.entropies, strict=True)
    ]
    means = windowed_means(surprises, window)
    return max((mean for mean in means if not math.isnan(mean)), default=0.0)


def _bounds(
    answer: AnswerView, tokens: int, limits: OutputLimits, learned: LearnedBounds
) -> _Bounds:
    """Return the bounds of a text of this kind; what was learned of perplexity goes before constants."""
    high = learned.perplexity.high if learned.perplexity else None
    times = 1.0
    if tokens < _FEW:
        times = _RARE if is_english_prose(answer) else math.inf
    elif answer.wishes.word_list and not is_english_prose(answer):
        times = _LISTED
    if high is not None:
        return _Bounds(times * high, high, "learned")
    return _Bounds(times * limits.max_perplexity, limits.max_perplexity_odd, "constant")


def _perplexity(worst: float, known: _Bounds) -> Verdict | None:
    if worst <= known.perplexity:
        return None
    sentence = f"Perplexity {worst:.0f} in a window, at most {known.perplexity:.0f} known."
    evidence = {"perplexity": round(worst, 1), "high": known.perplexity, "bound": known.kind}
    if worst > _VERY * known.perplexity:
        return failed("perplexity_very_high", sentence, **evidence)
    return suspect("perplexity_high", sentence, **evidence)


def _excess(reading: Reading, limits: OutputLimits, window: int) -> Verdict | None:
    worst = worst_excess(reading, window)
    if worst <= limits.max_excess:
        return None
    return suspect(
        "excess_high",
        f"{worst:.1f} nats a token beyond the model's own doubt, at most {limits.max_excess:.1f} known.",
        excess=round(worst, 2),
        high=limits.max_excess,
    )


def _two(worst: float, answer: AnswerView, known: _Bounds) -> Verdict | None:
    if worst <= known.odd or answer.wishes.drawing:
        return None
    kinds = answer.signs.kinds.lower()
    if len(kinds) < _ODD_LEAST:
        return None
    odd = (kinds.count(ODD) + 2 * kinds.count(GLUED)) / len(kinds)
    numbers = kinds.count(NUMBER) / len(kinds)
    if odd < _ODD_SHARE and numbers < _NUMBER_SHARE:
        return None
    return suspect(
        "odd_and_improbable",
        f"{odd:.0%} odd words, {numbers:.0%} numbers, perplexity {worst:.0f} in a window.",
        perplexity=round(worst, 1),
        odd_share=round(odd, 3),
        number_share=round(numbers, 3),
        high=known.odd,
        bound=known.kind,
    )
