from __future__ import annotations

import hashlib
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quality_lib.errors import EXIT_BAD_INPUT, BadInput
from quality_lib.golden import case_fields, check_spec
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.parse import (
    case_to_json,
    find_problems,
    golden_digest,
    parse_cases,
    read_case,
)
from tests.golden.bad_lines import ASK, BAD, TOOL, line

SCHEMA = json.loads(
    (Path(case_fields.__file__).parent / "data/case.schema.json").read_text(encoding="utf-8")
)


def test_reads_every_field() -> None:
    (case,) = parse_cases(
        [
            line(
                params={"temperature": 1, "seed": 7, "max_tokens": 9, "top_p": 0.9},
                tools=[TOOL],
                tool_choice="required",
                response_format={"type": "json_object"},
                facts=["x|y"],
                checks=[{"type": "json"}],
                tags=["axis:qa"],
                repeats=3,
                critical=True,
            )
        ],
        "set.jsonl",
    )
    assert case.messages == tuple(ASK)
    assert case.params.temperature == 1.0
    assert (case.params.seed, case.params.max_tokens, case.params.top_p) == (7, 9, 0.9)
    assert case.tools == (TOOL,)
    assert case.tool_choice == "required"
    assert case.response_format == {"type": "json_object"}
    assert (case.facts, case.checks, case.tags) == (("x|y",), ({"type": "json"},), ("axis:qa",))
    assert (case.repeats, case.critical, case.source) == (3, True, "set.jsonl:1")


def test_blank_lines_and_comments_are_skipped_and_still_counted() -> None:
    lines = ["\ufeff// my set\n", "\n", line(), "   ", "  // more", line(id="b")]
    assert [case.source for case in parse_cases(lines, "s")] == ["s:3", "s:6"]


@pytest.mark.parametrize(("text", "field", "problem", "fix"), BAD)
def test_a_bad_line_is_named_with_field_problem_and_fix(
    text: str, field: str, problem: str, fix: str
) -> None:
    with pytest.raises(BadInput) as caught:
        parse_cases([line(id="good"), text], "set.jsonl")
    error = caught.value
    assert (error.file, error.line, error.field or "") == ("set.jsonl", 2, field)
    assert problem in error.problem
    assert error.fix
    assert fix in error.fix
    assert error.exit_code == EXIT_BAD_INPUT


def test_a_second_use_of_an_id_names_the_first_line() -> None:
    (problem,) = find_problems(["// set", line(), line(id="b"), line()], "s")
    assert (problem.line, problem.field) == (4, "id")
    assert "line 2" in problem.problem


@pytest.mark.parametrize("lines", [[], ["\n", "// nothing"]])
def test_a_set_without_a_case_is_refused(lines: list[str]) -> None:
    with pytest.raises(BadInput, match="holds no case"):
        parse_cases(lines, "s")


def test_all_problems_of_all_lines_are_found_at_once() -> None:
    lines = ["{", line(facts=[""], repeats=0), line(id="b"), line(id="c", tags=3)]
    found = [(problem.line, problem.field) for problem in find_problems(lines, "s")]
    assert found == [(1, None), (2, "facts[0]"), (2, "repeats"), (4, "tags")]
    with pytest.raises(BadInput, match="3 more") as caught:
        parse_cases(lines, "s")
    assert caught.value.line == 1


def test_a_good_set_has_no_problem() -> None:
    assert find_problems([line()], "s") == []


def test_digest_depends_on_content_alone() -> None:
    lines = [line(id=str(number), params={"max_tokens": number + 1}) for number in range(9)]
    digest = golden_digest(parse_cases(lines, "one.jsonl"))
    shuffled = ["// another file", *random.Random(3).sample(lines, len(lines))]
    assert golden_digest(parse_cases(shuffled, "two.jsonl")) == digest
    assert golden_digest(parse_cases(lines[1:], "one.jsonl")) != digest


@pytest.mark.parametrize(
    "changed",
    [
        {"params": {"temperature": 0.5, "seed": 1}},
        {"params": {"max_tokens": 65}},
        {"params": {"top_p": 0.5}},
        {"params": {"seed": 0}},
        {"facts": ["x"]},
        {"tags": ["x"]},
        {"checks": [{"type": "json"}]},
        {"repeats": 1},
        {"critical": True},
        {"tools": [TOOL]},
        {"response_format": {"type": "json_object"}},
        {"messages": [{"role": "user", "content": "Hi!"}]},
    ],
)
def test_every_changed_field_changes_the_digest(changed: dict[str, Any]) -> None:
    assert golden_digest(parse_cases([line(**changed)], "s")) != golden_digest(
        parse_cases([line()], "s")
    )


def test_spelling_out_a_default_does_not_change_the_digest() -> None:
    spelled = line(params={"temperature": 0, "max_tokens": 64, "top_p": 1}, repeats=2, facts=[])
    assert golden_digest(parse_cases([spelled], "s")) == golden_digest(parse_cases([line()], "s"))


def test_digest_is_the_hash_of_the_sorted_canonical_lines() -> None:
    written = [
        '{"critical":false,"facts":["é"],"id":"b","messages":[{"content":"Hi","role":"user"}],'
        '"params":{"max_tokens":64,"temperature":0.0,"top_p":1.0},"repeats":2}',
        '{"critical":false,"id":"a","messages":[{"content":"Hi","role":"user"}],'
        '"params":{"max_tokens":64,"seed":3,"temperature":0.5,"top_p":1.0},"repeats":2}',
    ]
    expected = hashlib.sha256("".join(f"{text}\n" for text in sorted(written)).encode()).hexdigest()
    cases = parse_cases(
        [line(id="a", params={"temperature": 0.5, "seed": 3}), line(id="b", facts=["é"])], "s"
    )
    assert golden_digest(cases) == expected


@settings(max_examples=50)
@given(
    st.fixed_dictionaries(
        {
            "id": st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
            "messages": st
            .text(st.characters(exclude_categories=["Cs"]), min_size=1)
            .filter(str.strip)
            .map(lambda text: [{"role": "user", "content": text}]),
        },
        optional={
            "params": st.fixed_dictionaries({
                "seed": st.integers(0, 2**40),
                "temperature": st.floats(0, 2),
            }),
            "facts": st.lists(st.sampled_from(["a", "b|c", "é"])),
            "repeats": st.integers(1, 50),
        },
    )
)
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    case = read_case(document, "s")
    assert isinstance(case, GoldenCase)
    again = read_case(json.loads(json.dumps(case_to_json(case))), "s")
    assert again == case
    assert Draft202012Validator(SCHEMA).is_valid(case_to_json(case))


def test_the_schema_knows_the_same_fields_and_checks() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == set(case_fields.FIELDS)
    assert tuple(SCHEMA["required"]) == case_fields.REQUIRED
    assert set(SCHEMA["properties"]["params"]["properties"]) == set(case_fields.PARAMS)
    forms = SCHEMA["$defs"]["check"]["oneOf"]
    assert {
        form["properties"]["type"]["const"]: set(form["properties"]) - {"type"} for form in forms
    } == {name: {*kind.required, *kind.optional} for name, kind in check_spec.CHECK_TYPES.items()}


# What a schema cannot say: nested schemas, regular expressions, names of tools and scripts.
BEYOND_A_SCHEMA = {
    "tools[1].function.name",
    "tool_choice",
    "response_format.json_schema.schema.type",
    "checks[0].pattern",
    "checks[0].script",
    "checks[0].schema",
    "checks[0].schema.minimum",
    "checks[0].schema.pattern",
    "checks[0].name",
    "messages[1].role",
}


@pytest.mark.parametrize(
    ("text", "field"),
    [(text, field) for text, field, *_ in BAD if field and field not in BEYOND_A_SCHEMA],
)
def test_the_schema_refuses_what_the_parser_refuses(text: str, field: str) -> None:
    assert not Draft202012Validator(SCHEMA).is_valid(json.loads(text))


def test_the_examples_of_the_manual_are_good() -> None:
    manual = Path(__file__).parents[2] / "docs" / "golden-set.md"
    examples = re.findall(r"```json\n(.*?)```", manual.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 2
    assert find_problems("".join(examples).splitlines(), "golden-set.md") == []


@pytest.mark.parametrize("name", [*case_fields.FIELDS, *check_spec.CHECK_TYPES])
def test_the_manual_explains_every_field_and_check(name: str) -> None:
    manual = Path(__file__).parents[2] / "docs" / "golden-set.md"
    assert re.search(rf"[`\"]{name}[`\".]", manual.read_text(encoding="utf-8"))
