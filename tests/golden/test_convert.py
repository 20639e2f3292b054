from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.golden.checks import check_answer, fact_score
from quality_lib.golden.convert import from_inspect, from_openai_batch, from_promptfoo
from quality_lib.records import Outcome

ASK = [{"role": "user", "content": "Hi"}]


def batch(**fields: Any) -> str:
    body = {"model": "m", "messages": ASK, "temperature": 0, **fields.pop("body", {})}
    request = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(request | fields)


def test_a_batch_request_becomes_a_case() -> None:
    tool = {"type": "function", "function": {"name": "add"}}
    body = {
        "temperature": 0.5,
        "seed": 3,
        "top_p": 0.9,
        "max_completion_tokens": 20,
        "tools": [tool],
        "tool_choice": "required",
        "response_format": {"type": "json_object"},
    }
    (case,), notes = from_openai_batch([batch(body=body), "\n"])
    assert (case.id, case.messages) == ("a", tuple(ASK))
    assert (case.params.temperature, case.params.seed, case.params.top_p) == (0.5, 3, 0.9)
    assert case.params.max_tokens == 20
    assert (case.tools, case.tool_choice) == ((tool,), "required")
    assert case.response_format == {"type": "json_object"}
    assert notes == ()


@pytest.mark.parametrize(
    ("line", "cases", "note"),
    [
        ("{", 0, "line 1: left out: no JSON"),
        ("[]", 0, "line 1: left out: no object with a 'body'"),
        (batch(url="/v1/embeddings"), 0, "line 1: left out: requests to /v1/embeddings"),
        (batch(body={"messages": []}), 0, "line 1: case left out: field 'messages' is empty"),
        (batch(body={"logit_bias": {}}), 1, "line 1: 'logit_bias' was not carried over"),
        (batch(body={"temperature": 0.7}), 1, "line 1: sampled without a seed"),
        (batch(body={"temperature": None}), 1, "line 1: names no temperature"),
        (batch(custom_id="a b/c"), 1, "line 1: the id 'a b/c' became 'a-b-c'"),
    ],
)
def test_what_a_batch_loses_is_noted(line: str, cases: int, note: str) -> None:
    found, notes = from_openai_batch([line])
    assert len(found) == cases
    assert [n for n in notes if n.startswith(note)], notes


def test_equal_ids_are_kept_apart() -> None:
    cases, notes = from_openai_batch([batch(), batch()])
    assert [case.id for case in cases] == ["a", "a-2"]
    assert len(notes) == 1


def test_a_made_up_seed_is_always_the_same() -> None:
    line = batch(body={"temperature": 0.7})
    assert from_openai_batch([line]) == from_openai_batch([line])


def foo(**fields: Any) -> dict[str, Any]:
    test = {"description": "greet", "vars": {"name": "Ada"}, **fields}
    return {"prompts": ["Greet {{ name }}."], "tests": [test]}


def test_every_promptfoo_prompt_meets_every_test_and_every_value() -> None:
    document = {
        "prompts": ["Say {{word}}", {"raw": '[{"role": "user", "content": "{{word}}"}]'}],
        "tests": [{"vars": {"word": ["sun", "moon"]}}, {"vars": {"word": "sea"}}],
    }
    cases, _ = from_promptfoo(document)
    assert [case.messages[0]["content"] for case in cases] == [
        "Say sun",
        "Say moon",
        "Say sea",
        "sun",
        "moon",
        "sea",
    ]
    assert len({case.id for case in cases}) == 6


@pytest.mark.parametrize(
    ("entry", "good", "bad"),
    [
        ({"type": "contains", "value": "Hello {{name}}"}, "Hello Ada!", "Hello Bob!"),
        ({"type": "icontains", "value": "hello"}, "HELLO", "bye"),
        ({"type": "contains-all", "value": ["a.", "b"]}, "a. b", "ab"),
        ({"type": "contains-any", "value": ["a.", "b|"]}, "b|", "ab"),
        ({"type": "equals", "value": "1+1"}, " 1+1\n", "1+12"),
        ({"type": "starts-with", "value": "Dear"}, "Dear Ada", "Oh dear"),
        ({"type": "regex", "value": "^A.a$"}, "Ada", "Bob"),
        ({"type": "is-json"}, "{}", "{"),
        ({"type": "is-json", "value": {"required": ["x"]}}, '{"x": 1}', "{}"),
    ],
)
def test_an_assertion_means_the_same_as_before(entry: dict[str, Any], good: str, bad: str) -> None:
    (case,), notes = from_promptfoo(foo(**{"assert": [entry]}))
    assert notes == ()

    def passes(text: str) -> bool:
        return all(v.outcome is Outcome.PASSED for v in check_answer(case, text, (), "stop"))

    assert passes(good)
    assert not passes(bad)


@pytest.mark.parametrize(
    ("document", "cases", "note"),
    [
        (foo(**{"assert": [{"type": "llm-rubric", "value": "kind"}]}), 1, "type 'llm-rubric'"),
        (foo(**{"assert": [{"type": "regex", "value": "("}]}), 1, "check left out"),
        (foo(options={"x": 1}), 1, "tests[0]: 'options' was not carried over"),
        (foo(vars={}), 0, "the template keeps '{{ name }}'"),
        (foo() | {"prompts": ["{{ name | upper }}"]}, 0, "the template keeps"),
        (foo() | {"prompts": ["file://p.txt"]}, 0, "prompts[0]: left out"),
        (foo() | {"tests": "file://t.csv"}, 0, "tests: was not carried over"),
        (foo() | {"tests": ["file://t.yaml"]}, 0, "tests[0]: left out"),
        (foo(**{"assert": [{"type": "contains"}]}), 1, "without a value"),
        (foo(**{"assert": "file://a.yaml"}), 1, "tests[0].assert: was not carried over"),
        (foo() | {"providers": ["openai:x"]}, 1, "providers: was not carried over"),
    ],
)
def test_what_promptfoo_loses_is_noted(document: dict[str, Any], cases: int, note: str) -> None:
    found, notes = from_promptfoo(document)
    assert len(found) == cases
    assert [n for n in notes if note in n], notes


def test_promptfoo_defaults_hold_for_every_test() -> None:
    document = foo(vars={}) | {
        "defaultTest": {"vars": {"name": "Ada"}, "assert": [{"type": "is-json"}]}
    }
    (case,), notes = from_promptfoo(document)
    assert (case.messages[0]["content"], case.checks) == ("Greet Ada.", ({"type": "json"},))
    assert notes == ()


def test_an_inspect_sample_becomes_a_case() -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2+2?", "id": 1},
    ]
    cases, notes = from_inspect([
        {"input": "Capital of France?", "target": "Paris", "id": 7},
        {"input": chat, "target": "4"},
    ])
    assert [case.id for case in cases] == ["7", "sample-0002"]
    assert cases[1].messages[1] == {"role": "user", "content": "2+2?"}
    assert [case.facts for case in cases] == [("Paris",), ("4",)]
    assert notes == ()


def test_any_of_several_targets_will_do() -> None:
    (case,), _ = from_inspect([{"input": "Name a city", "target": ["Rome", "Oslo"]}])
    assert fact_score(case, "I like Oslo.") == 1.0


def test_choices_are_written_below_the_question() -> None:
    (case,), _ = from_inspect([{"input": "Pick", "choices": ["red", "blue"], "target": "B"}])
    assert case.messages[0]["content"] == "Pick\nA) red\nB) blue"
    assert case.facts == ("blue",)


@pytest.mark.parametrize(
    ("record", "cases", "note"),
    [
        ("text", 0, "sample 1: left out"),
        ({"target": "x"}, 0, "sample 1: left out"),
        ({"input": []}, 0, "case left out: field 'messages' is empty"),
        ({"input": "x", "metadata": {"k": 1}}, 1, "'metadata' was not carried over"),
        ({"input": "x", "target": "long " * 40}, 1, "makes no fact"),
        ({"input": "x", "target": ""}, 1, ""),
        ({"input": ["x"], "choices": ["a"]}, 0, "case left out"),
    ],
)
def test_what_inspect_loses_is_noted(record: Any, cases: int, note: str) -> None:
    found, notes = from_inspect([record])
    assert len(found) == cases
    assert not note or [n for n in notes if note in n], notes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([
                "id",
                "input",
                "target",
                "choices",
                "role",
                "content",
                "body",
                "messages",
                "url",
                "custom_id",
                "prompts",
                "tests",
                "vars",
                "assert",
                "type",
                "value",
                "raw",
                "tools",
                "temperature",
                "defaultTest",
            ]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=50)
@given(JSON)
def test_no_document_breaks_a_converter(document: Any) -> None:
    for cases, notes in (
        from_openai_batch([json.dumps(document)]),
        from_inspect([document]),
        from_promptfoo(document if isinstance(document, dict) else {}),
        from_promptfoo({"prompts": ["{{content}}"], "tests": [document]}),
    ):
        assert all(case.id for case in cases)
        assert all(notes)
