from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from quality_lib.commands import golden_set
from quality_lib.errors import EXIT_BAD_INPUT, EXIT_GOOD, BadInput

GOOD = '{"id": "a", "messages": [{"role": "user", "content": "Hi"}], "tags": ["axis:qa"]}\n'


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    golden_set.register(app)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_validate_tells_number_axes_and_digest(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(GOOD + GOOD.replace('"a"', '"b"').replace("axis:qa", "x"))
    told = json.loads(run("validate", path, "--json").stdout)
    assert told["ok"] is True
    assert (told["cases"], told["axes"]) == (2, {"(no axis)": 1, "qa": 1})
    plain = run("validate", path)
    assert plain.exit_code == EXIT_GOOD
    assert f"digest {told['digest']}" in plain.stdout
    assert "1  qa" in plain.stdout


def test_validate_lists_every_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("{\n" + GOOD + GOOD.replace('"id"', '"idd"'))
    result = run("validate", path)
    assert result.exit_code == EXIT_BAD_INPUT
    first, second, third = result.stdout.splitlines()
    assert first.startswith(f"{path}:1: no JSON")
    assert second == f"{path}:3: id: is missing; add a string."
    assert third == f"{path}:3: idd: unknown field; did you mean 'id'?"
    assert "3 problems" in result.stderr


def test_validate_speaks_json_of_bad_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(GOOD + GOOD)
    result = run("validate", path, "--json")
    assert result.exit_code == EXIT_BAD_INPUT
    told = json.loads(result.stdout)
    assert told["ok"] is False
    (problem,) = told["problems"]
    assert (problem["file"], problem["line"], problem["field"]) == (str(path), 2, "id")
    assert "line 1" in problem["problem"]
    assert problem["fix"]


def test_validate_knows_the_built_in_set() -> None:
    assert json.loads(run("validate", "builtin:core", "--json").stdout)["cases"] >= 128


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            "openai-batch",
            '{"custom_id": "a", "url": "/v1/chat/completions", "body": '
            '{"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "user": "u"}}\n',
        ),
        ("promptfoo", "prompts: ['Hi {{x}}']\ntests:\n- vars: {x: 1}\n  threshold: 0.5\n"),
        ("inspect", '[{"input": "Hi", "target": "Hello", "id": "a", "metadata": {"k": 1}}]'),
    ],
)
def test_convert_writes_a_valid_set_and_tells_what_is_lost(
    tmp_path: Path, form: str, text: str
) -> None:
    source, out = tmp_path / "source", tmp_path / "out.jsonl"
    source.write_text(text)
    result = run("convert", source, "--from", form, "--out", out, "--json")
    assert result.exit_code == EXIT_GOOD
    told = json.loads(result.stdout)
    assert told["cases"] == 1
    assert len(told["notes"]) == 1
    assert told["notes"][0] in result.stderr
    assert json.loads(run("validate", out, "--json").stdout)["digest"] == told["digest"]


def test_convert_of_the_wrong_format_writes_nothing(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out.jsonl"
    source.write_text('{"input": "Hi"}\n')
    result = run("convert", source, "--from", "openai-batch", "--out", out)
    assert isinstance(result.exception, BadInput)
    assert "not one case" in str(result.exception)
    assert "no object with a 'body'" in result.stderr
    assert not out.exists()


def test_convert_keeps_an_existing_file_unless_forced(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out.jsonl"
    source.write_text('{"input": "Hi"}\n')
    out.write_text("mine")
    assert isinstance(run("convert", source, "--from", "inspect", "--out", out).exception, BadInput)
    assert out.read_text() == "mine"
    assert run("convert", source, "--from", "inspect", "--out", out, "--force").exit_code == 0
    assert "sample-0001" in out.read_text()


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_schema_is_json_either_way(flags: list[str]) -> None:
    assert json.loads(run("schema", *flags).stdout)["title"] == "Golden case"


def test_list_shows_every_case(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(GOOD + GOOD.replace('"a"', '"longer"').replace("axis:qa", "core"))
    assert [line.split() for line in run("list", "--cases", str(path)).stdout.splitlines()] == [
        ["a", "greedy", "64", "axis:qa"],
        ["longer", "greedy", "64", "core"],
    ]
    told = json.loads(run("list", "--cases", str(path), "--json").stdout)
    assert [row["id"] for row in told["cases"]] == ["a", "longer"]
    assert len(json.loads(run("list", "--json").stdout)["cases"]) >= 128
