"""Level 1: the deny list and own rules of the configuration. Pure."""

from __future__ import annotations

from collections.abc import Callable

import regex

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.input_limits import InputLimits, InputRule
from quality_lib.gates.normalise import is_clean, normalise
from quality_lib.records import Outcome, Verdict

_REASONS = (
    Reason("input_allowed", Outcome.PASSED, "No denied phrase and no own rule matches."),
    Reason("input_denied", Outcome.FAILED, "The prompt holds a denied phrase.", "gates.input.deny"),
    Reason("input_rule_failed", Outcome.FAILED, "An own rule that fails matches.", "gates.input.rules"),
    Reason("input_rule_suspect", Outcome.SUSPECT, "An own rule that suspects matches.", "gates.input.rules"),
    Reason(
        "input_rule_timed_out",
        Outcome.UNJUDGED,
        "An own rule took too long for this prompt and was given up.",
        "gates.input.rule_timeout_s",
    ),
    Reason("input_rules_unset", Outcome.UNJUDGED, "There are no denied phrases and no own rules."),
)  # fmt: skip
_UNSET = Verdict(Outcome.UNJUDGED, "input_rules_unset", "No phrases or rules are configured.")
_ALLOWED = Verdict(Outcome.PASSED, "input_allowed", "No denied phrase and no own rule matches.")
_BY_OUTCOME = {
    "FAILED": (Outcome.FAILED, "input_rule_failed"),
    "SUSPECT": (Outcome.SUSPECT, "input_rule_suspect"),
}


def input_rules(limits: InputLimits) -> Gate:
    """Fail prompts with denied phrases, and apply own rules; a rule that is too slow is not judged."""
    denied = _deny_pattern(limits.deny)
    rules = [(rule, _compiled(rule)) for rule in limits.rules]
    rules.sort(key=lambda pair: pair[0].outcome != "FAILED")

    def judge(exchange: Exchange) -> Verdict:
        if denied is None and not rules:
            return _UNSET
        text = exchange.asked
        text = text if is_clean(text) else normalise(text).text
        if denied is not None and (match := denied.search(text)):
            phrase = limits.deny[(match.lastindex or 1) - 1]
            return Verdict(
                Outcome.FAILED,
                "input_denied",
                f"The prompt holds the denied phrase '{phrase}'.",
                {"phrase": phrase, "offset": match.start()},
            )
        return _first_match(rules, text, limits.rule_timeout_s)

    return Gate("input_rules", Level.INPUT, judge, _REASONS)


def _first_match(
    rules: list[tuple[InputRule, regex.Pattern[str]]], text: str, timeout_s: float
) -> Verdict:
    slow: list[str] = []
    for rule, pattern in rules:
        try:
            match = pattern.search(text, timeout=timeout_s)
        except TimeoutError:
            slow.append(rule.name)
            continue
        if match:
            outcome, code = _BY_OUTCOME[rule.outcome]
            evidence = {"rule": rule.name, "offset": match.start()}
            return Verdict(outcome, code, f"The rule '{rule.name}' matches the prompt.", evidence)
    if slow:
        sentence = f"The rule '{slow[0]}' took longer than {timeout_s} s and was given up."
        return Verdict(Outcome.UNJUDGED, "input_rule_timed_out", sentence, {"rules": slow})
    return _ALLOWED


def _compiled(rule: InputRule) -> regex.Pattern[str]:
    return regex.compile(rule.pattern, regex.IGNORECASE if rule.ignore_case else 0)


def _deny_pattern(phrases: tuple[str, ...]) -> regex.Pattern[str] | None:
    """One group per phrase. Words are matched whole, except in scripts without blanks."""
    if not phrases:
        return None
    return regex.compile("|".join(f"({_phrase(p)})" for p in phrases), regex.IGNORECASE)


def _phrase(phrase: str) -> str:
    words = r"\s+".join(regex.escape(word) for word in normalise(phrase).text.split())
    edge: Callable[[str], bool] = lambda character: bool(_SPACED.match(character))  # noqa: E731
    before = r"(?<![\p{L}\p{N}_])" if edge(phrase.strip()[0]) else ""
    after = r"(?![\p{L}\p{N}_])" if edge(phrase.strip()[-1]) else ""
    return before + words + after


_SPACED = regex.compile(
    r"[\p{L}\p{N}--\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}]", regex.V1
)
