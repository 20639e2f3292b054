from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from quality_lib.adapters.files.bounds import write_bounds
from quality_lib.commands.check import check_command
from quality_lib.errors import (
    EXIT_BAD_INPUT,
    EXIT_BAD_QUALITY,
    EXIT_GOOD,
    EXIT_INCONCLUSIVE,
    BadInput,
    NoData,
)
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.jobs.reference_reading import REFERENCE_GATES

GOOD = {
    "id": "good",
    "prompt": "Name three fruits.",
    "text": "Apples, pears and plums are three fruits.",
    "finish_reason": "stop",
    "params": {"temperature": 0.7},
}
LOOP = {"id": "loop", "prompt": "Name three fruits.", "text": "!" * 64, "finish_reason": "length"}
HOT = GOOD | {"id": "hot", "params": {"temperature": 1.5}}
REQUEST = {"id": "request", "prompt": "Name  three\u200b fruits."}
KEYS = ["id", "verdict", "reasons", "gates", "normalised"]


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    app = typer.Typer()
    app.command()(check_command)
    asked = [str(argument) for argument in arguments]
    if "--reference" not in asked:
        asked += ["--reference", "off"]  # it takes seconds to load
    return CliRunner().invoke(app, asked, input=stdin)


def lines(*records: dict[str, Any] | str) -> str:
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)


def verdicts(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_one_verdict_per_line_in_order() -> None:
    result = run("-", "--json", stdin=lines(GOOD, LOOP, HOT, REQUEST))
    told = verdicts(result)
    assert [list(verdict) for verdict in told] == [KEYS] * 4
    assert [(v["id"], v["verdict"]) for v in told] == [
        ("good", "PASSED"),
        ("loop", "FAILED"),
        ("hot", "SUSPECT"),
        ("request", "PASSED"),
    ]
    assert told[0]["reasons"] == []
    assert told[2]["reasons"] == ["parameter_out_of_bounds"]
    assert [v["normalised"] for v in told] == [None, None, None, "Name three fruits."]
    gate = told[1]["gates"][0]
    assert list(gate) == ["gate", "level", "outcome", "reason", "sentence", "evidence"]
    assert result.exit_code == EXIT_BAD_QUALITY


def test_a_request_alone_gets_levels_1_and_2() -> None:
    request, whole = verdicts(run("-", "--json", stdin=lines(REQUEST, GOOD)))
    assert {gate["level"] for gate in request["gates"]} == {1, 2}
    assert {gate["level"] for gate in whole["gates"]} == {1, 2, 4}


@pytest.mark.parametrize(
    ("records", "exit_code"),
    [
        ([GOOD], EXIT_GOOD),
        ([GOOD, HOT], EXIT_GOOD),
        ([GOOD, LOOP], EXIT_BAD_QUALITY),
        ([GOOD, "no json"], EXIT_BAD_INPUT),
        ([LOOP, "no json", GOOD], EXIT_BAD_INPUT),
    ],
)
def test_exit_codes(records: list[Any], exit_code: int) -> None:
    for flags in ([], ["--json"]):
        assert run("-", *flags, stdin=lines(*records)).exit_code == exit_code


def test_a_bad_line_is_told_and_the_others_are_judged(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(lines(GOOD, {"id": "b", "prompt": 5}, "{", HOT), encoding="utf-8")
    result = run(path, "--json")
    told = verdicts(result)
    assert [(v["id"], v["verdict"], v["reasons"]) for v in told] == [
        ("good", "PASSED", []),
        ("b", "UNJUDGED", ["bad_line"]),
        ("#3", "UNJUDGED", ["bad_line"]),
        ("hot", "SUSPECT", ["parameter_out_of_bounds"]),
    ]
    assert told[1]["gates"][0]["evidence"] == {"line": 2, "field": "prompt"}
    assert f"{path}:2: field 'prompt'" in result.stderr.replace("\n", "")
    assert f"{path}:3: " in result.stderr.replace("\n", "")
    assert result.exit_code == EXIT_BAD_INPUT


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_nothing_to_judge_is_inconclusive(text: str) -> None:
    result = run("-", "--json", stdin=text)
    assert isinstance(result.exception, NoData)
    assert result.exception.exit_code == EXIT_INCONCLUSIVE


def test_records_that_no_gate_can_judge_are_inconclusive() -> None:
    result = run("-", "--json", "--gate", "input_tokens", stdin=lines(GOOD))
    assert verdicts(result)[0]["verdict"] == "UNJUDGED"
    assert result.exit_code == EXIT_INCONCLUSIVE


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    assert isinstance(run(tmp_path / "nowhere.jsonl").exception, BadInput)


def test_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(lines(GOOD, HOT).encode()))
    assert len(verdicts(run(path, "--json"))) == 2


def test_filters() -> None:
    by_level = verdicts(run("-", "--json", "--level", "2", stdin=lines(LOOP)))[0]
    assert {gate["level"] for gate in by_level["gates"]} == {2}
    assert by_level["verdict"] == "PASSED"
    by_name = verdicts(run("-", "--json", "--gate", "input_size", stdin=lines(LOOP)))[0]
    assert [gate["gate"] for gate in by_name["gates"]] == ["input_size"]
    assert len(verdicts(run("-", "--json", "--limit", "2", stdin=lines(GOOD, GOOD, LOOP)))) == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--gate", "inptu_size"], "use one of"),
        (["--level", "3"], "inside the server"),
        (["--config", "quality.yaml"], "--service"),
    ],
)
def test_wrong_use_says_what_to_do(arguments: list[str], problem: str) -> None:
    result = run("-", *arguments, stdin=lines(GOOD))
    assert isinstance(result.exception, BadInput)
    assert problem in str(result.exception)


def test_a_service_brings_its_own_limits(tmp_path: Path) -> None:
    config = tmp_path / "quality.yaml"
    config.write_text(
        "services:\n"
        "  chat:\n"
        "    endpoint: http://x\n    model: m\n    weights: w\n"
        "    gates:\n"
        "      disabled: [input_cleaning]\n"
        "      input: {deny: [fruits]}\n"
        "      parameters: {temperature: [0, 2]}\n",
        encoding="utf-8",
    )
    arguments = ["-", "--json", "--service", "chat", "--config", str(config)]
    hot, loop = verdicts(run(*arguments, stdin=lines(HOT, LOOP)))
    assert hot["reasons"] == ["input_denied"]
    assert "input_cleaning" not in {gate["gate"] for gate in hot["gates"]}
    assert loop["verdict"] == "FAILED"
    wrong = run("-", "--service", "caht", "--config", config, stdin=lines(HOT))
    assert "use one of: chat" in str(wrong.exception)


def test_learned_bounds_of_the_service_are_used(tmp_path: Path) -> None:
    write_bounds(
        tmp_path / "bounds.json", LearnedBounds(answer_tokens=Range(100, 200), answers=500)
    )
    config = tmp_path / "quality.yaml"
    config.write_text(
        "services: {chat: {endpoint: http://x, model: m, weights: w, gates: {bounds: bounds.json}}}",
        encoding="utf-8",
    )
    arguments = ["-", "--json", "--service", "chat", "--config", str(config)]
    counted = GOOD | {"usage": {"prompt_tokens": 9, "completion_tokens": 9}}
    (told,) = verdicts(run(*arguments, stdin=lines(counted)))
    assert "learned" in json.dumps([gate["evidence"] for gate in told["gates"]])


def test_a_tokenizer_of_a_folder_that_has_none_is_bad_input(tmp_path: Path) -> None:
    result = run("-", "--tokenizer", tmp_path, stdin=lines(GOOD))
    assert isinstance(result.exception, BadInput)
    assert "tokenizer_config.json" in str(result.exception)


def test_odd_values_do_not_break_the_line() -> None:
    odd = '{"id": "\\ud800", "prompt": "\\ud83d", "params": {"temperature": NaN, "top_p": Infinity}, "text": "a"}'
    result = run("-", "--json", stdin=lines(odd, GOOD))
    first, second = verdicts(result)
    assert first["verdict"] == "FAILED"
    assert "NaN" not in result.stdout
    assert second["id"] == "good"


def test_a_record_without_id_is_numbered() -> None:
    nameless = {k: v for k, v in GOOD.items() if k != "id"}
    assert [v["id"] for v in verdicts(run("-", "--json", stdin=lines(GOOD, nameless)))] == [
        "good",
        "#2",
    ]


def test_the_table_shows_the_worst_first_and_counts() -> None:
    result = run("-", stdin=lines(GOOD, HOT, "no json", LOOP, GOOD))
    at = {name: result.stdout.index(name) for name in ("loop", "hot", "#3")}
    assert at["loop"] < at["hot"] < at["#3"]
    assert "good" not in result.stdout
    assert "5 records: 2 PASSED, 1 SUSPECT, 1 FAILED, 1 UNJUDGED" in result.stdout
    assert "parameter_out_of_bounds" in result.stdout


def test_the_table_is_limited_but_the_counts_are_not() -> None:
    records = [HOT | {"id": f"row{n}"} for n in range(9)]
    result = run("-", "--top", "2", stdin=lines(*records))
    assert result.stdout.count("row") == 2
    assert "9 SUSPECT" in result.stdout


def test_markup_in_ids_is_shown_as_it_is() -> None:
    assert "[bold]x" in run("-", stdin=lines(HOT | {"id": "[bold]x"})).stdout


def test_the_reference_model_finds_what_no_rule_can(
    model_folder: Path,
) -> None:
    nonsense = GOOD | {
        "id": "nonsense",
        "text": "Plums gavel in thimble and pewter, for orchards quartz with violin. A kettle harbours as ledger, "
        "because walnut alphabet is drowsy of anchor, so velvet pears mortgage on Tuesday to brisk zinc.",
    }
    beside = GOOD | {
        "id": "beside",
        "prompt": "How do vaccines protect us?",
        "text": "The meeting with the architect has been moved to Thursday at three in the small room.",
    }
    records = lines(GOOD, nonsense, LOOP, REQUEST, beside)
    without = verdicts(run("-", "--json", stdin=records))
    assert without[1]["verdict"] == "PASSED"
    told = verdicts(run("-", "--json", "--reference", model_folder, stdin=records))
    assert [v["verdict"] for v in told] == ["PASSED", "SUSPECT", "FAILED", "PASSED", "SUSPECT"]
    assert [told[n]["reasons"] for n in (1, 4)] == [["perplexity_high"], ["beside_the_question"]]
    asked = [[g["gate"] for g in v["gates"] if g["gate"] in REFERENCE_GATES] for v in told]
    # What failed already and what has no answer is not read.
    read = list(REFERENCE_GATES)
    assert asked == [read, read, [], [], read]


def test_a_reference_model_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    result = run("-", "--json", "--reference", tmp_path / "none", stdin=lines(GOOD))
    assert isinstance(result.exception, BadInput)


def test_gates_chosen_by_name_or_level_may_need_no_reference_model(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    for chosen in (["--gate", "loop"], ["--level", "1"]):
        result = run("-", "--json", "--reference", missing, *chosen, stdin=lines(GOOD))
        assert result.exit_code == EXIT_GOOD
