"""The set that comes with the package: spread, spelling and size."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from jsonschema import Draft202012Validator

from quality_lib.golden import parse
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.checks import check_answer, schema_problem

DATA = Path(parse.__file__).parent / "data"
LINES = (DATA / "core.jsonl").read_text(encoding="utf-8").split("\n")
CASES = parse.parse_cases(LINES, "core.jsonl")
AXES = {
    "qa": 24,
    "code": 10,
    "json": 10,
    "tool": 8,
    "multi_turn": 10,
    "planted": 14,
    "arithmetic": 8,
    "coverage": 10,
    "long_context": 8,
    "creative": 8,
    "translation": 6,
}


def tagged(tag: str) -> list[GoldenCase]:
    return [case for case in CASES if tag in case.tags]


def test_the_set_is_large_and_spread_over_every_axis() -> None:
    assert len(CASES) >= 128
    found = Counter(case.axis for case in CASES)
    assert set(found) == set(AXES)
    assert {axis: n for axis, n in found.items() if n < AXES[axis]} == {}


def test_it_speaks_many_languages() -> None:
    assert all(case.language for case in CASES)
    assert {"en", "zh", "ja", "ar", "ru", "fr", "de", "es", "hi"} <= {c.language for c in CASES}


def test_about_one_case_in_five_is_sampled() -> None:
    sampled = [case for case in CASES if not case.params.is_greedy]
    assert 0.12 <= len(sampled) / len(CASES) <= 0.25
    assert all(0.7 <= case.params.temperature <= 1.0 for case in sampled)
    assert len({case.params.seed for case in sampled}) == len(sampled)


def test_answers_are_short_so_that_a_run_is_fast() -> None:
    assert max(case.params.max_tokens for case in CASES) <= 64
    assert {case.repeats for case in CASES} == {2}


def test_the_short_set_is_ten_cases_of_different_kinds() -> None:
    short = tagged("core")
    assert len(short) == 10
    assert len({case.axis for case in short}) >= 9
    assert len(tagged("alone")) == 4


def test_long_prompts_grow_and_hide_the_needle_everywhere() -> None:
    long = tagged("long_context")
    sizes = [len(str(case.messages[0]["content"]).split()) for case in long]
    assert min(sizes) < 350
    assert max(sizes) > 1200
    where = set()
    for case in long:
        text = str(case.messages[0]["content"]).split("\n\nQuestion")[0]
        needle = case.facts[0].split("|")[0]
        assert text.count(needle) == 1
        where.add(round(2 * text.index(needle) / len(text)))
        sentences = [s for part in text.split("\n\n") for s in part.split(". ")]
        assert len(set(sentences)) == len(sentences)
    assert where == {0, 1, 2}


def test_planted_facts_stand_in_the_prompt() -> None:
    for case in [*tagged("axis:planted"), *tagged("long_context")]:
        asked = " ".join(str(message["content"]) for message in case.messages)
        for fact in case.facts:
            assert any(either in asked for either in fact.split("|")), case.id


def test_critical_cases_ask_for_what_the_grammar_forces() -> None:
    critical = [case for case in CASES if case.critical]
    assert 5 <= len(critical) <= 12
    assert {case.axis for case in critical} == {"json", "tool"}
    for case in critical:
        assert case.response_format or case.tool_choice


def test_structured_and_tool_cases_are_closed_objects() -> None:
    structured = [case for case in CASES if case.response_format]
    assert len(structured) >= 10
    for case in structured:
        schema = (case.response_format or {})["json_schema"]["schema"]
        assert schema["additionalProperties"] is False
        assert schema_problem([], schema) is not None
    for case in tagged("axis:tool"):
        reasons = {v.reason for v in check_answer(case, "no", (), "stop")}
        assert "tool_call_missing" in reasons


def test_every_line_fits_the_schema() -> None:
    validator = Draft202012Validator(json.loads((DATA / "case.schema.json").read_text()))
    for line in filter(None, LINES):
        assert list(validator.iter_errors(json.loads(line))) == []


def test_no_two_cases_ask_the_same() -> None:
    asked = Counter(json.dumps([dict(m) for m in case.messages]) for case in CASES)
    assert [text for text, n in asked.items() if n > 1] == []
