"""Level 2: a frequency penalty does not outgrow a long answer. Pure."""

from __future__ import annotations

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_ranges import number_of
from quality_lib.records import Outcome, Verdict

COMMONEST_SHARE = 0.04
"""Share of the commonest token in ordinary text: about one in 25 is "the" or a comma."""
ASKED_SHARE = 0.25
"""Answers seldom use all of ``max_tokens``; of a request alone, this share of it is taken for its length."""

_REASONS = (
    Reason("parameter_penalty_bearable", Outcome.PASSED, "No frequency penalty, or the answer is short enough."),
    Reason(
        "parameter_penalty_outgrows_answer",
        Outcome.SUSPECT,
        "The frequency penalty adds up over the answer until common words cannot be used any more.",
        "gates.parameters.max_accumulated_penalty",
        "tale#88",
    ),
)  # fmt: skip
_BEARABLE = Verdict(Outcome.PASSED, "parameter_penalty_bearable", "No penalty outgrows the answer.")


def parameter_penalty(bounds: ParameterBounds) -> Gate:
    """Suspect a frequency penalty that, added up over the answer, forbids the commonest words."""

    def judge(exchange: Exchange) -> Verdict:
        penalty = number_of(exchange.params.get("frequency_penalty"))
        if penalty is None or penalty <= 0:
            return _BEARABLE
        tokens = _length(exchange)
        lowered = penalty * tokens * COMMONEST_SHARE
        if lowered <= bounds.max_accumulated_penalty:
            return _BEARABLE
        return Verdict(
            Outcome.SUSPECT,
            "parameter_penalty_outgrows_answer",
            f"frequency_penalty {penalty:g} over {tokens:.0f} tokens lowers common words by {lowered:.0f} nats.",
            {
                "frequency_penalty": penalty,
                "tokens": int(tokens),
                "nats": round(lowered, 1),
                "limit": bounds.max_accumulated_penalty,
            },
        )

    return Gate("parameter_penalty", Level.PARAMETERS, judge, _REASONS)


def _length(exchange: Exchange) -> float:
    """Return the tokens of the answer, or what a request alone will probably use."""
    if exchange.answer is not None:
        return float(exchange.completion_tokens or 0)
    asked = exchange.params.get("max_completion_tokens") or exchange.params.get("max_tokens")
    return (number_of(asked) or 0.0) * ASKED_SHARE
