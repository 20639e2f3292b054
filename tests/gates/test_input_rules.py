from __future__ import annotations

import time

import pytest

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.input_limits import InputLimits, InputRule
from quality_lib.gates.input_rules import input_rules
from quality_lib.records import Outcome


def said(limits: InputLimits, text: str) -> tuple[Outcome, str]:
    verdict = input_rules(limits).judge(Exchange(prompt=text))
    return verdict.outcome, verdict.reason


def test_without_rules_nothing_is_said() -> None:
    assert said(InputLimits(), "anything") == (Outcome.UNJUDGED, "input_rules_unset")


@pytest.mark.parametrize(
    ("text", "is_denied"),
    [
        ("Tell me of Project Orchid", True),
        ("tell me of project   ORCHID!", True),
        ("tell me of pro\u200bject or\u00adchid", True),
        ("project\norchid", True),
        ("projects orchids", False),
        ("an orchid project", False),
        ("subproject orchid", False),
        ("那么秘密项目呢", True),
        ("C++", True),
        ("C", False),
    ],
)
def test_denied_phrases(text: str, is_denied: bool) -> None:
    limits = InputLimits(deny=("project orchid", "秘密项目", "c++"))
    expected = (Outcome.FAILED, "input_denied") if is_denied else (Outcome.PASSED, "input_allowed")
    assert said(limits, text) == expected


def test_the_phrase_is_named_but_not_the_prompt() -> None:
    verdict = input_rules(InputLimits(deny=("a", "b c"))).judge(Exchange(prompt="my secret b  c"))
    assert verdict.evidence == {"phrase": "b c", "offset": 10}
    assert "secret" not in verdict.sentence


def test_a_failing_rule_goes_before_a_suspecting_one() -> None:
    limits = InputLimits(
        rules=(InputRule("soft", "x"), InputRule("hard", r"\bx{2}\b", outcome="FAILED"))
    )
    assert said(limits, "xx") == (Outcome.FAILED, "input_rule_failed")
    assert said(limits, "X") == (Outcome.SUSPECT, "input_rule_suspect")
    assert said(limits, "y") == (Outcome.PASSED, "input_allowed")


def test_case_may_matter() -> None:
    limits = InputLimits(rules=(InputRule("key", "AKIA", ignore_case=False),))
    assert said(limits, "akia")[0] is Outcome.PASSED
    assert said(limits, "AKIA")[0] is Outcome.SUSPECT


def test_a_catastrophic_pattern_is_given_up_in_time() -> None:
    limits = InputLimits(rules=(InputRule("slow", r"(a|a|b|aa)+$"),), rule_timeout_s=0.02)
    started = time.perf_counter()
    assert said(limits, "a" * 5000 + "!") == (Outcome.UNJUDGED, "input_rule_timed_out")
    assert time.perf_counter() - started < 5


def test_a_slow_rule_does_not_hide_a_matching_one() -> None:
    slow = InputRule("slow", r"(a|a|b|aa)+$", outcome="FAILED")
    limits = InputLimits(rules=(slow, InputRule("fast", "!")), rule_timeout_s=0.02)
    assert said(limits, "a" * 5000 + "!") == (Outcome.SUSPECT, "input_rule_suspect")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "x", "pattern": "("}, "no regular expression"),
        ({"name": "", "pattern": "a"}, "needs a name"),
    ],
)
def test_a_wrong_rule_is_refused_at_once(fields: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        InputRule(**fields)  # type: ignore[arg-type]
