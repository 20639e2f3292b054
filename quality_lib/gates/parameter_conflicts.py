"""Level 2: the parameters do not contradict each other or the request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_finding import Finding, is_structured, verdict_of
from quality_lib.gates.parameter_ranges import IGNORED_BY_GREEDY, is_greedy, number_of
from quality_lib.records import Outcome, Verdict

_REASONS = (
    Reason("parameters_agree", Outcome.PASSED, "The parameters do not contradict each other."),
    Reason(
        "parameter_ignored_by_greedy",
        Outcome.PASSED,
        "Greedy sampling ignores top_p, top_k and min_p; they do no harm.",
    ),
    Reason(
        "parameter_tiny_temperature",
        Outcome.SUSPECT,
        "A temperature this small overflows or is lifted, by vLLM version; 0 says what is meant.",
        "gates.parameters.greedy_below",
        "vllm#3063, TensorRT-LLM#15715",
    ),
    Reason(
        "parameter_penalty_on_structure",
        Outcome.SUSPECT,
        "A repetition or frequency penalty with JSON: its quotes, braces and keys must repeat.",
        "gates.parameters.max_structured_repetition",
    ),
    Reason(
        "parameter_end_ignored",
        Outcome.SUSPECT,
        "ignore_eos makes the model write on after the end of its answer; it is for benchmarks.",
    ),
    Reason(
        "parameter_greedy_choices",
        Outcome.FAILED,
        "Several choices with greedy sampling: all are the same, and vLLM refuses it.",
    ),
    Reason("parameter_min_above_max", Outcome.FAILED, "min_tokens lies above max_tokens."),
    Reason("parameter_empty_stop", Outcome.FAILED, "A stop string is empty or no text; vLLM refuses it."),
)  # fmt: skip
_AGREE = Verdict(Outcome.PASSED, "parameters_agree", "The parameters do not contradict each other.")
_OFF = {"top_p": {1.0}, "top_k": {0.0, -1.0}, "min_p": {0.0}}


def parameter_conflicts(bounds: ParameterBounds) -> Gate:
    """Find contradictory combinations; those that only have no effect pass."""

    def judge(exchange: Exchange) -> Verdict:
        if not exchange.params:
            return _AGREE
        found = conflict_findings(exchange.params, bounds, has_structure=is_structured(exchange))
        return verdict_of(found, _AGREE)

    return Gate("parameter_conflicts", Level.PARAMETERS, judge, _REASONS)


def conflict_findings(
    params: Mapping[str, Any], bounds: ParameterBounds, *, has_structure: bool
) -> list[Finding]:
    """List every contradiction with what resolves it."""
    found = _greedy(params, bounds) if is_greedy(params, bounds) else []
    if has_structure:
        found += _structure(params, bounds)
    if "min_tokens" in params:
        found += _lengths(params)
    if params.get("stop") is not None:
        found += _stops(params["stop"])
    if params.get("ignore_eos") is True:
        sentence = "ignore_eos is set: the model writes on after its answer has ended."
        found.append(
            Finding("ignore_eos", True, None, "parameter_end_ignored", Outcome.SUSPECT, sentence)
        )
    return found


def _greedy(params: Mapping[str, Any], bounds: ParameterBounds) -> list[Finding]:
    found: list[Finding] = []
    temperature = params["temperature"]
    if number_of(temperature):
        sentence = f"temperature {temperature} is below {bounds.greedy_below:g} and becomes 0."
        found.append(
            Finding(
                "temperature", temperature, 0.0, "parameter_tiny_temperature", Outcome.SUSPECT, sentence
            )
        )  # fmt: skip
    choices = number_of(params.get("n"))
    if choices is not None and choices > 1:
        sentence = f"n is {choices:g} with temperature 0: all choices would be the same."
        found.append(
            Finding("n", params["n"], 1, "parameter_greedy_choices", Outcome.FAILED, sentence)
        )
    for name in IGNORED_BY_GREEDY:
        value = number_of(params.get(name))
        if value is not None and value not in _OFF[name]:
            sentence = f"{name} has no effect with temperature 0."
            found.append(
                Finding(
                    name, params[name], None, "parameter_ignored_by_greedy", Outcome.PASSED, sentence
                )
            )  # fmt: skip
    return found


def _structure(params: Mapping[str, Any], bounds: ParameterBounds) -> list[Finding]:
    limits = (
        ("repetition_penalty", bounds.max_structured_repetition, 1.0),
        ("frequency_penalty", bounds.max_structured_frequency, 0.0),
    )
    found: list[Finding] = []
    for name, limit, neutral in limits:
        value = number_of(params.get(name))
        if value is not None and value > limit:
            sentence = f"{name} {value:g} with structured output, whose marks must repeat."
            found.append(
                Finding(
                    name, params[name], neutral, "parameter_penalty_on_structure", Outcome.SUSPECT, sentence
                )
            )  # fmt: skip
    return found


def _lengths(params: Mapping[str, Any]) -> list[Finding]:
    least = number_of(params.get("min_tokens"))
    most = number_of(params.get("max_completion_tokens") or params.get("max_tokens"))
    if least is None or most is None or least <= most:
        return []
    sentence = f"min_tokens {least:g} lies above max_tokens {most:g}."
    before = params["min_tokens"]
    return [
        Finding(
            "min_tokens", before, int(most), "parameter_min_above_max", Outcome.FAILED, sentence
        )
    ]


def _stops(stop: Any) -> list[Finding]:
    """An empty list of stops is fine, an empty stop string is not."""
    given = stop if isinstance(stop, list | tuple) else [stop]
    good = [text for text in given if isinstance(text, str) and text]
    if len(good) == len(given):
        return []
    sentence = "A stop string is empty or no text."
    return [Finding("stop", stop, good or None, "parameter_empty_stop", Outcome.FAILED, sentence)]
