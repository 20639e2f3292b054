"""Level 2: every sampling parameter is a number inside its bounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_finding import Finding, shown, verdict_of
from quality_lib.records import Outcome, Verdict

_REASONS = (
    Reason("parameters_in_bounds", Outcome.PASSED, "Every parameter that was sent lies in its bounds."),
    Reason("parameters_not_sent", Outcome.PASSED, "No parameter was sent: the server's defaults apply."),
    Reason(
        "parameter_out_of_bounds",
        Outcome.SUSPECT,
        "A parameter is possible but outside the bounds of this service.",
        "gates.parameters",
    ),
    Reason("parameter_written_as_text", Outcome.SUSPECT, "A number was sent as a text."),
    Reason("parameter_impossible", Outcome.FAILED, "A parameter has a value that vLLM refuses."),
    Reason("parameter_wrong_type", Outcome.FAILED, "A parameter is no number, or NaN or infinite."),
)  # fmt: skip
_IN_BOUNDS = Verdict(Outcome.PASSED, "parameters_in_bounds", "All parameters lie in their bounds.")
_NOT_SENT = Verdict(Outcome.PASSED, "parameters_not_sent", "No parameters were sent.")


@dataclass(frozen=True)
class _Kind:
    """What vLLM takes for a parameter (``SamplingParams``), and where its bounds are kept."""

    bounds: str
    low: float
    high: float
    is_whole: bool = False
    excludes_low: bool = False
    off: tuple[float, ...] = ()
    """Values that switch it off, always allowed."""


_KINDS: Mapping[str, _Kind] = {
    "temperature": _Kind("temperature", 0, 2, off=(0,)),
    "top_p": _Kind("top_p", 0, 1, excludes_low=True, off=(1,)),
    "top_k": _Kind("top_k", -1, math.inf, is_whole=True, off=(0, -1)),
    "min_p": _Kind("min_p", 0, 1, off=(0,)),
    "presence_penalty": _Kind("presence_penalty", -2, 2, off=(0,)),
    "frequency_penalty": _Kind("frequency_penalty", -2, 2, off=(0,)),
    "repetition_penalty": _Kind("repetition_penalty", 0, math.inf, excludes_low=True, off=(1,)),
    "max_tokens": _Kind("max_tokens", 1, math.inf, is_whole=True),
    "max_completion_tokens": _Kind("max_tokens", 1, math.inf, is_whole=True),
    "n": _Kind("n", 1, math.inf, is_whole=True, off=(1,)),
}
IGNORED_BY_GREEDY = ("top_p", "top_k", "min_p")


def parameter_ranges(bounds: ParameterBounds) -> Gate:
    """Suspect parameters outside the bounds and fail impossible ones; None counts as not sent."""

    plain = {name: _plain(kind, bounds) for name, kind in _KINDS.items()}

    def judge(exchange: Exchange) -> Verdict:
        if not exchange.params:
            return _NOT_SENT
        if _are_plain(exchange.params, plain):
            return _IN_BOUNDS
        return verdict_of(range_findings(exchange.params, bounds), _IN_BOUNDS)

    return Gate("parameter_ranges", Level.PARAMETERS, judge, _REASONS)


def _plain(kind: _Kind, bounds: ParameterBounds) -> tuple[float, float, float, bool]:
    """Return from where to where, and above what, a number of the right type is fine without a second look."""
    low, high = getattr(bounds, kind.bounds)
    return low, min(high, kind.high), kind.low, kind.is_whole


def _are_plain(
    params: Mapping[str, Any], plain: Mapping[str, tuple[float, float, float, bool]]
) -> bool:
    """Whether nothing is to be said of any parameter, as of nearly all that are ever sent."""
    for name, value in params.items():
        if name in plain:
            low, high, above, is_whole = plain[name]
            is_number = type(value) is int or (type(value) is float and not is_whole)
            if not (is_number and low <= value <= high and above < value):
                return False
    return True


def range_findings(params: Mapping[str, Any], bounds: ParameterBounds) -> list[Finding]:
    """Hold each parameter against what vLLM takes and against the bounds.

    Greedy sampling ignores top_p, top_k and min_p, so only impossible values of them count then. A
    temperature below ``greedy_below`` is left to `parameter_conflicts`.
    """
    greedy = is_greedy(params, bounds)
    found = (
        _finding(name, value, bounds, greedy=greedy)
        for name, value in params.items()
        if value is not None and name in _KINDS
    )
    return [finding for finding in found if finding is not None]


def number_of(value: Any) -> float | None:
    """Return a finite number, also one that was written as a text; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def is_greedy(params: Mapping[str, Any], bounds: ParameterBounds) -> bool:
    """Whether the temperature is 0 or so small that it becomes 0."""
    temperature = number_of(params.get("temperature"))
    return (
        temperature is not None
        and temperature >= 0
        and (temperature == 0 or temperature < bounds.greedy_below)
    )


def _finding(name: str, value: Any, bounds: ParameterBounds, *, greedy: bool) -> Finding | None:
    kind = _KINDS[name]
    low, high = getattr(bounds, kind.bounds)
    number = number_of(value)
    if number is None or (kind.is_whole and not number.is_integer()):
        what = "whole number" if kind.is_whole else "finite number"
        sentence = f"{name} must be a {what}, not {shown(value)!r}."
        return Finding(name, value, None, "parameter_wrong_type", Outcome.FAILED, sentence)
    inside = min(max(number, low), high)
    after = int(inside) if kind.is_whole else inside
    if not kind.low <= number <= kind.high or (kind.excludes_low and number == kind.low):
        sentence = f"{name} is {shown(value)}, which vLLM refuses."
        return Finding(name, value, after, "parameter_impossible", Outcome.FAILED, sentence)
    passes = number in kind.off or low <= number <= high or (greedy and name in _EXEMPT)
    if not passes:
        sentence = f"{name} is {shown(value)}; {low:g} to {high:g} is allowed."
        return Finding(name, value, after, "parameter_out_of_bounds", Outcome.SUSPECT, sentence)
    if isinstance(value, str):
        sentence = f"{name} was sent as the text '{value[:40]}'."
        sent = int(number) if kind.is_whole else number
        return Finding(name, value, sent, "parameter_written_as_text", Outcome.SUSPECT, sentence)
    return None


_EXEMPT = {*IGNORED_BY_GREEDY, "temperature"}
