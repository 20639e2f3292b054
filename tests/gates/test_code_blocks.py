from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from quality_lib.gates import code_blocks
from quality_lib.gates.code_blocks import language_of, parser_of, whole_lines
from tests.gates.answers import answer, found, verdict_of


@pytest.mark.parametrize(
    ("language", "code", "parses"),
    [
        ("python", "a = 1", True),
        ("python", "a = = 1", False),
        ("python", "a\0b", False),
        ("python", "(" * 5_000, False),
        ("json", '{"a": 1}', True),
        ("json", "{'a': 1}", False),
        ("json", "[" * 100_000, False),
    ],
)
def test_code_parses_or_not(language: str, code: str, parses: bool) -> None:
    problem_of = parser_of(language)
    assert problem_of is not None
    assert (problem_of(code) is None) is parses


@pytest.mark.parametrize(
    "name", ["", "text", "brainfuck", "os", "../python", "javascript; import os"]
)
def test_an_unknown_language_has_no_parser(name: str) -> None:
    assert parser_of(language_of(name)) is None


@pytest.mark.parametrize(
    ("name", "language"), [("py", "python"), (" JS ", "javascript"), ("go", "go")]
)
def test_names_of_languages(name: str, language: str) -> None:
    assert language_of(name) == language


def test_cut_code_keeps_its_whole_lines() -> None:
    problem_of = parser_of("python")
    assert problem_of is not None
    assert whole_lines("a = 1\nb = (2,", problem_of) == 1
    assert whole_lines("b = (2,", problem_of) is None


def test_a_grammar_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = SimpleNamespace(type="ERROR", is_missing=False, start_point=(2, 0), children=[])
    root = SimpleNamespace(type="program", is_missing=False, has_error=True, children=[fault])
    fault.has_error = True
    parser = SimpleNamespace(parse=lambda code: SimpleNamespace(root_node=root))
    modules = {
        "tree_sitter": SimpleNamespace(
            Parser=lambda _language: parser, Language=lambda pointer: pointer
        ),
        "tree_sitter_rust": SimpleNamespace(language=lambda: 0),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    code_blocks._grammar_problem.cache_clear()
    problem_of = parser_of("rust")
    assert problem_of is not None
    assert problem_of("fn main( {") == "does not parse from line 3 on"
    code_blocks._grammar_problem.cache_clear()


@pytest.mark.parametrize(
    ("text", "finish", "reasons"),
    [
        ("```python\nprint(1)\n```", "stop", ()),
        ("```python\ndef f(:\n    return\n```", "stop", ("code_unparsable",)),
        ("```\nnot python at all (\n```", "stop", ()),
        ("```python\nfor x in ...:\n  …\n```", "stop", ()),
        ("```python\n>>> print(1)\n1\n```", "stop", ()),
        ("```python\nprint 'old'\n```", "stop", ()),
        ("1. Do this:\n   ```python\n   a = 1\n   b = 2\n   ```", "stop", ()),
        ("```python\ndef f():\n    return 1\nprint(f(", "length", ()),
        ('```json\n{"a": 1,}\n```', "stop", ("code_unparsable",)),
        ('```json\n{"a": 1} // all of it\n```', "stop", ()),
        ("```json\n{...}\n```", "stop", ()),
        ("```rust\nfn main( {\n```", "stop", ("code_unparsable",)),
        ('```rust\nlet x = 5;\nprintln!("{x}");\n```', "stop", ()),
        ("```go\nx := 1\nfmt.Println(x)\n```", "stop", ()),
        ("```js\nconst a = [1, 2].map((x) => x * 2);\n```", "stop", ()),
        ("```ts\nconst a: number[] = [];\n```", "stop", ()),
        ('```bash\nfor f in *.txt; do echo "$f"; done\n```', "stop", ()),
        ("```java\nint x = 5;\nSystem.out.println(x);\n```", "stop", ()),
        ("```c\nint add(int a, int b) { return a + b; }\n```", "stop", ()),
        ("```java\npublic class A { void f( { }\n```", "stop", ("code_unparsable",)),
        (
            "```python\ndef add(a, b:\n    retrun a + b))\n  print add(1,\n```",
            "stop",
            ("code_unparsable",),
        ),
        ('```python\nprint "old", 1\n```', "stop", ()),
    ],
)
def test_a_fenced_block_must_parse(text: str, finish: str, reasons: tuple[str, ...]) -> None:
    assert found(answer(text, "Show me.", finish))[1] == reasons


def test_code_that_is_about_errors_need_not_parse() -> None:
    text = "```python\ndef f(:\n    return\n```"
    said = verdict_of(answer(text, "Show a syntax error."), "code_syntax")
    assert said.verdict.reason == "code_syntax_ok"
