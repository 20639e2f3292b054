from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from quality_lib.golden.case import GoldenCase
from quality_lib.golden.check_spec import CHECK_TYPES
from quality_lib.golden.checks import CHECKERS, applicable_checks, check_answer, fact_score
from quality_lib.golden.repetition import closing_loop
from quality_lib.golden.text_measures import count_words
from quality_lib.records import Outcome, Verdict

ASK = ({"role": "user", "content": "Hi"},)
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}


def case(**fields: Any) -> GoldenCase:
    return GoldenCase("a", ASK, **fields)


def verdict_of(
    check: Mapping[str, Any], text: str, finish: str | None = "stop", **fields: Any
) -> Verdict:
    verdicts = check_answer(case(checks=(check,), **fields), text, (), finish)
    (verdict,) = [v for v in verdicts if v.evidence["check"] == check["type"]]
    return verdict


SCHEMA = {"type": "json_schema", "schema": POINT}
PY = {"type": "code", "language": "python"}
HAN = {"type": "script", "script": "Han"}


@pytest.mark.parametrize(
    ("check", "text", "finish", "outcome", "reason"),
    [
        ({"type": "json"}, ' {"a": [1]} ', "stop", "PASSED", "json_ok"),
        ({"type": "json"}, '{"a": [1', "length", "FAILED", "json_invalid"),
        ({"type": "json"}, "[" * 100_000, "length", "FAILED", "json_invalid"),
        (SCHEMA, '{"x": 3}', "stop", "PASSED", "json_schema_ok"),
        (SCHEMA, '{"x": "3"}', "stop", "FAILED", "json_schema_mismatch"),
        (SCHEMA, '{"x": 3, "y": 1}', "stop", "FAILED", "json_schema_mismatch"),
        (SCHEMA, "x is 3", "stop", "FAILED", "json_invalid"),
        ({"type": "regex", "pattern": r"\d{4}"}, "in 1999.", "stop", "PASSED", "regex_ok"),
        ({"type": "regex", "pattern": "YES"}, "yes", "stop", "FAILED", "regex_no_match"),
        (
            {"type": "regex", "pattern": "YES", "ignore_case": True},
            "yes",
            "stop",
            "PASSED",
            "regex_ok",
        ),
        ({"type": "contains", "text": "Straße 5"}, "STRASSE\n5", "stop", "PASSED", "contains_ok"),
        ({"type": "contains", "text": "x|y"}, "only x", "stop", "FAILED", "contains_missing"),
        (PY, "```python\nprint(1)\n```", "stop", "PASSED", "code_ok"),
        (PY, "Run:\n```bash\npip x &&\n```\n```python\na = 1\n```", "stop", "PASSED", "code_ok"),
        (PY, "a = '\\d'", "stop", "PASSED", "code_ok"),
        (PY, "```python\nprint(1\n```", "stop", "FAILED", "code_syntax_error"),
        (PY, "```\nok = 1\n```\n```\nif x = 3:\n```", "stop", "FAILED", "code_syntax_error"),
        (PY, "a\0b", "stop", "FAILED", "code_syntax_error"),
        (PY, "```bash\nls\n```", "stop", "FAILED", "code_missing"),
        (PY, "```python\ndef f():\n    return 1\nprint(f(", "length", "PASSED", "code_ok"),
        (PY, "```python\nprint(f(", "length", "UNJUDGED", "code_truncated"),
        ({"type": "code", "language": "json"}, "```json\n{}\n```", "stop", "PASSED", "code_ok"),
        ({"type": "code", "language": "json"}, "{'a'}", "stop", "FAILED", "code_syntax_error"),
        ({"type": "max_words", "words": 3}, "one two three", "stop", "PASSED", "max_words_ok"),
        ({"type": "max_words", "words": 2}, "one two three", "stop", "FAILED", "too_many_words"),
        ({"type": "min_words", "words": 4}, "one two three", "stop", "FAILED", "too_few_words"),
        ({"type": "min_words", "words": 3}, "北京市", "stop", "PASSED", "min_words_ok"),
        (HAN, "北京 is big", "stop", "FAILED", "script_share_low"),
        (HAN, "中国的首都是北京 (Beijing)", "stop", "PASSED", "script_ok"),
        (HAN, "42!", "stop", "FAILED", "script_share_low"),
        (
            {"type": "script", "script": "Cyrillic"},
            "Москва — Moscow",
            "stop",
            "PASSED",
            "script_ok",
        ),
        ({"type": "script", "script": "Devanagari"}, "दिल्ली है", "stop", "PASSED", "script_ok"),
    ],
)
def test_a_check_gives_its_outcome_and_reason(
    check: Mapping[str, Any], text: str, finish: str, outcome: str, reason: str
) -> None:
    verdict = verdict_of(check, text, finish)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert verdict.sentence


TOOLS = (
    {"type": "function", "function": {"name": "move", "parameters": POINT}},
    {"type": "function", "function": {"name": "stop"}},
)


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([call("move", '{"x": 1}')], "tool_call_ok"),
        ([{"name": "move", "arguments": {"x": 1}}], "tool_call_ok"),
        ([call("stop", "{}"), call("move", '{"x": 1}')], "tool_call_ok"),
        ([], "tool_call_missing"),
        ([call("fly", "{}")], "tool_call_unknown_tool"),
        ([call("stop", "{}")], "tool_call_wrong_tool"),
        ([call("move", '{"x": ')], "tool_arguments_invalid_json"),
        ([call("move", '{"x": "left"}')], "tool_arguments_schema_mismatch"),
        ([call("move", None)], "tool_arguments_schema_mismatch"),
    ],
)
@pytest.mark.parametrize("by_choice", [True, False])
def test_a_tool_call_is_judged_by_name_and_arguments(
    calls: Sequence[Mapping[str, Any]], reason: str, by_choice: bool
) -> None:
    asked = (
        case(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "move"}})
        if by_choice
        else case(tools=TOOLS, checks=({"type": "tool_call", "name": "move"},))
    )
    verdicts = check_answer(asked, "", calls, "tool_calls")
    (verdict,) = [v for v in verdicts if v.evidence["check"] == "tool_call"]
    assert verdict.reason == reason
    assert (verdict.outcome is Outcome.PASSED) == (reason == "tool_call_ok")


@pytest.mark.parametrize(
    ("text", "calls", "reason"),
    [
        ("ok", (), "not_empty_ok"),
        ("", (call("stop", "{}"),), "not_empty_ok"),
        (" \n\t", (), "answer_empty"),
    ],
)
def test_an_answer_must_hold_something(
    text: str, calls: Sequence[Mapping[str, Any]], reason: str
) -> None:
    assert check_answer(case(), text, calls, "stop")[0].reason == reason


WAYWARD = "The river runs past the old mill and nobody has counted the stones in it. "
COLLAPSED = [
    "!" * 64,
    "Paris is " + "the the the the " * 12,
    "The answer is\n" + "\n" * 60,
    "的" * 48,
    "ok. " + "assistant\n" * 14,
    WAYWARD + "I am a helpful assistant and I will help you with that. " * 8,
    "Sure! 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0",
]


@pytest.mark.parametrize("text", COLLAPSED)
@pytest.mark.parametrize("finish", ["length", None])
def test_a_loop_up_to_the_limit_is_a_collapse(text: str, finish: str | None) -> None:
    verdict = check_answer(case(), text, (), finish)[1]
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, "repetition_collapse")
    assert verdict.evidence["repeats"] >= 6


HEALTHY = [
    ("hello " * 10, "stop"),
    ("ha" * 100, "stop"),
    ("-" * 80, "stop"),
    ("I will not talk in class. " * 10, "stop"),
    ("I will not talk in class. " * 8, "length"),
    ("\n".join(f"{n}. item" for n in range(1, 30)), "length"),
    ("| name | age |\n|---|---|\n" + "".join(f"| row {n} | {n} |\n" for n in range(20)), "length"),
    (", ".join(str(n) for n in range(1, 60)), "length"),
    ("Roses are red, " + WAYWARD, "length"),
    ("Wow!!!!!!!!!!!!!!!!!!!! " + WAYWARD * 2, "length"),
    (WAYWARD * 2 + "=" * 40, "length"),
    ("def f():\n" + "".join(f"    x{n} = {n}\n" for n in range(12)), "length"),
    ("ja ja ja", "length"),
    ("", "length"),
]


@pytest.mark.parametrize(("text", "finish"), HEALTHY)
def test_odd_but_healthy_text_is_no_collapse(text: str, finish: str) -> None:
    assert check_answer(case(), text, (), finish)[1].outcome is Outcome.PASSED


def test_a_loop_names_its_smallest_unit() -> None:
    loop = closing_loop("well, " + "abc" * 20)
    assert loop is not None
    assert (loop.unit, loop.copies, loop.length) == ("abc", 20, 60)


def test_a_case_may_allow_repetition() -> None:
    checks = applicable_checks(case(checks=({"type": "may_repeat"},)))
    assert [check["type"] for check in checks] == ["not_empty"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"response_format": {"type": "text"}}, []),
        ({"response_format": {"type": "json_object"}}, [{"type": "json"}]),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "p", "schema": POINT},
                }
            },
            [SCHEMA],
        ),
        ({"tools": TOOLS, "tool_choice": "auto"}, []),
        ({"tools": TOOLS, "tool_choice": "required"}, [{"type": "tool_call"}]),
        (
            {
                "tools": TOOLS,
                "tool_choice": "required",
                "checks": ({"type": "tool_call", "name": "move"},),
            },
            [{"type": "tool_call", "name": "move"}],
        ),
    ],
)
def test_the_request_implies_checks(fields: dict[str, Any], expected: list[Any]) -> None:
    always = [{"type": "not_empty"}, {"type": "no_repetition_collapse"}]
    assert list(applicable_checks(case(**fields))) == always + expected


@pytest.mark.parametrize(
    "check", [{"type": "regex", "pattern": "("}, {"type": "nonsense"}, {"type": "json_schema"}]
)
def test_a_broken_checker_is_unjudged(check: Mapping[str, Any]) -> None:
    verdict = verdict_of(check, "{}")
    assert (verdict.outcome, verdict.reason) == (Outcome.UNJUDGED, "checker_crashed")


def test_a_schema_never_reaches_for_the_network() -> None:
    check = {"type": "json_schema", "schema": {"$ref": "http://127.0.0.1:9/schema.json"}}
    verdict = verdict_of(check, "{}")
    assert verdict.reason == "checker_crashed"
    assert "Unresolvable" in verdict.sentence


def test_an_exponential_pattern_is_given_up() -> None:
    check = {"type": "regex", "pattern": r"^(?:a|a|aa)+$(?<=b)"}
    verdict = verdict_of(check, "a" * 60 + "c")
    assert (verdict.outcome, verdict.reason) == (Outcome.UNJUDGED, "regex_timeout")


def test_every_type_that_a_case_may_name_has_a_checker() -> None:
    assert set(CHECK_TYPES) - {"may_repeat"} == set(CHECKERS) - {
        "not_empty",
        "no_repetition_collapse",
    }


@pytest.mark.parametrize(
    ("facts", "text", "score"),
    [
        ((), "anything", None),
        (("Paris",), "It is PARIS.", 1.0),
        (("Paris", "Seine"), "It is Paris.", 0.5),
        (("eight|8",), "It has 8 legs", 1.0),
        (("12",), "１２", 1.0),
        (("café",), "cafe\u0301", 1.0),
        (("New York",), "New\n  York", 1.0),
        (("北京",), "首都是北京。", 1.0),
        (("x",), "", 0.0),
    ],
)
def test_fact_score(facts: tuple[str, ...], text: str, score: float | None) -> None:
    assert fact_score(case(facts=facts), text) == score


@pytest.mark.parametrize(
    ("text", "words"),
    [("", 0), ("It's a well-known fact.", 5), ("北京 is 大", 4), ("ひらがな", 4), ("один два", 2)],
)
def test_count_words(text: str, words: int) -> None:
    assert count_words(text) == words
