"""Level 4: how sure the server was of itself, window by window. Pure.

Judged from both sides, by the log-probabilities and entropies that the server reported: a corrupt
context gives wrong tokens with full confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect, unjudged
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "nan_logits",
        Outcome.FAILED,
        "The server counted steps whose logits held NaN or infinity.",
        source="vllm#18777, vllm#27301, vllm#53029",
    ),
    Reason(
        "logprob_low",
        Outcome.SUSPECT,
        "In a window the chosen tokens were improbable to the server itself.",
        "gates.output.min_logprob",
        "vllm#44988",
    ),
    Reason(
        "logprob_high",
        Outcome.SUSPECT,
        "In a window nothing was ever in doubt: a loop or a corrupt context.",
        "gates.output.max_logprob",
        "llm-scaler#721",
    ),
    Reason(
        "entropy_high",
        Outcome.SUSPECT,
        "In a window the next token was open at nearly every step.",
        "gates.output.max_entropy",
        "vllm#44988",
    ),
    Reason(
        "entropy_low",
        Outcome.SUSPECT,
        "In a window the next token was never open, less than in any healthy answer.",
        "gates.bounds",
        "llm-scaler#721",
    ),
    Reason("confidence_unknown", Outcome.UNJUDGED, "The server reported neither."),
)


def confidence(limits: OutputLimits, bounds: LearnedBounds, view: View) -> Gate:
    """Suspect answers with a window in which the server was too unsure or too sure of itself."""
    logprob = _band(bounds.mean_logprob, Range(limits.min_logprob, limits.max_logprob))
    entropy = _band(bounds.mean_entropy, Range(None, limits.max_entropy))

    neither = unjudged("confidence_unknown", "The server reported neither.")

    def look(answer: AnswerView) -> Verdict | None:
        own = answer.answer
        if own.nan_logits:
            return failed("nan_logits", f"{own.nan_logits} steps with NaN.", steps=own.nan_logits)
        if not own.logprobs and not own.entropies:
            return neither
        # Copies that were asked for, and output held to a grammar, come without doubt.
        sure_is_fine = (
            bool(answer.exchange.response_format) or answer.wishes.copying or answer.wishes.repeats
        )
        return _outside(
            own.logprobs,
            logprob,
            ("logprob_low", None if sure_is_fine else "logprob_high"),
            bounds.window,
        ) or _outside(
            own.entropies,
            entropy,
            (None if sure_is_fine else "entropy_low", "entropy_high"),
            bounds.window,
        )

    return output_gate("confidence", view, look, REASONS)


def _band(learned: Range | None, constant: Range) -> tuple[Range, str]:
    return (constant, "constant") if learned is None else (learned, "learned")


def _outside(
    values: Sequence[float] | None,
    band: tuple[Range, str],
    reasons: tuple[str | None, str | None],
    window: int,
) -> Verdict | None:
    """Compare the lowest and the highest window with a band."""
    means = windowed_means(values or (), window)
    if not means:
        return None
    (limits, bound), (low_reason, high_reason) = band, reasons
    lowest, highest = min(means), max(means)
    if low_reason and limits.low is not None and lowest < limits.low:
        return _said(low_reason, lowest, means.index(lowest), limits, bound)
    if high_reason and limits.high is not None and highest > limits.high:
        return _said(high_reason, highest, means.index(highest), limits, bound)
    return None


def _said(reason: str, mean: float, at: int, limits: Range, bound: str) -> Verdict:
    return suspect(
        reason,
        f"A window's mean is {mean:.3f}.",
        mean=round(mean, 4),
        token=at,
        low=limits.low,
        high=limits.high,
        bound=bound,
    )


def windowed_means(values: Sequence[float], window: int) -> list[float]:
    """Return the mean of every full window; empty when the values do not fill one."""
    if window < 1 or len(values) < window:
        return []
    sums = [0.0, *accumulate(values)]
    return [(sums[at + window] - sums[at]) / window for at in range(len(values) - window + 1)]
